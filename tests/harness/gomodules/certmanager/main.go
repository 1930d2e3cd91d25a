// Package main is cert-manager for the tests: what makes Certificates true by issuers that have
// their CA in a Secret, or none.
package main

import (
	"context"
	"log"
	"os"

	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"golang.org/x/sync/errgroup"
)

func main() {
	group, ctx := errgroup.WithContext(context.Background())
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig: os.Getenv("KUBECONFIG"),
	})
	fail(err)
	own, err := factory.Build()
	fail(err)
	for _, create := range controller.Known() {
		each, err := create(factory)
		fail(err)
		group.Go(func() error { return each.Run(1, ctx) })
	}
	own.KubeSharedInformerFactory.Start(ctx.Done())
	own.SharedInformerFactory.Start(ctx.Done())
	own.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	fail(group.Wait())
}

func fail(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
