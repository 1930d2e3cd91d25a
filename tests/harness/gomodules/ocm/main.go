// Package main is Open Cluster Management as one program, for the tests: the managers of a hub,
// its webhooks, the agent of a managed cluster, and the manifests that they need.
package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"text/template"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetes "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/api/feature"
	workv1 "open-cluster-management.io/api/work/v1"
	workv1alpha1 "open-cluster-management.io/api/work/v1alpha1"
	"open-cluster-management.io/ocm/manifests"
	addonv1alpha1 "open-cluster-management.io/ocm/pkg/addon/webhook/v1alpha1"
	addonv1beta1 "open-cluster-management.io/ocm/pkg/addon/webhook/v1beta1"
	"open-cluster-management.io/ocm/pkg/cmd/hub"
	"open-cluster-management.io/ocm/pkg/cmd/spoke"
	"open-cluster-management.io/ocm/pkg/common/options"
	"open-cluster-management.io/ocm/pkg/features"
	registrationv1 "open-cluster-management.io/ocm/pkg/registration/webhook/v1"
	registrationv1beta2 "open-cluster-management.io/ocm/pkg/registration/webhook/v1beta2"
	workwebhook "open-cluster-management.io/ocm/pkg/work/webhook"
	workcommon "open-cluster-management.io/ocm/pkg/work/webhook/common"
	workwebhookv1 "open-cluster-management.io/ocm/pkg/work/webhook/v1"
	workwebhookv1alpha1 "open-cluster-management.io/ocm/pkg/work/webhook/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"
)

// Only the one that is asked for is made: each seals the feature gates that they share.
var commands = map[string]func() *cobra.Command{
	"registration": withGates(
		hub.NewRegistrationController, feature.DefaultHubRegistrationFeatureGates),
	"placement": hub.NewPlacementController,
	"work":      withGates(hub.NewWorkController, feature.DefaultHubWorkFeatureGates),
	"addon":     hub.NewAddonManager,
	"webhooks":  newWebhooks,
	"agent":     spoke.NewKlusterletAgentCmd,
	"manifests": newManifests,
}

type gates = map[featuregate.Feature]featuregate.FeatureSpec

func withGates(create func() *cobra.Command, known gates) func() *cobra.Command {
	return func() *cobra.Command {
		command := create()
		fail(features.HubMutableFeatureGate.Add(known))
		features.HubMutableFeatureGate.AddFlag(command.Flags())
		return command
	}
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fail(fmt.Errorf("not a command: %q", os.Args[1:]))
	}
	// What they leave in it goes when the folder goes that they run in.
	folder, err := os.Getwd()
	fail(err)
	fail(os.Setenv("TMPDIR", folder))
	command := commands[os.Args[1]]()
	command.SetArgs(os.Args[2:])
	fail(command.Execute())
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// OCM's own three servers take the ports 8000 and 8080, so they cannot run beside one another.
func newWebhooks() *cobra.Command {
	var address, certificates string
	var port int
	run := func(*cobra.Command, []string) { fail(runWebhooks(address, port, certificates)) }
	command := &cobra.Command{Use: "webhooks", Run: run}
	command.Flags().StringVar(&address, "address", "127.0.0.1", "")
	command.Flags().IntVar(&port, "port", 0, "")
	command.Flags().StringVar(&certificates, "certificates", "", "folder of tls.crt and tls.key")
	command.Flags().AddGoFlagSet(flag.CommandLine) // has kubeconfig
	return command
}

func runWebhooks(address string, port int, certificates string) error {
	ctrl.SetLogger(klog.Background())
	fail(features.HubMutableFeatureGate.Add(feature.DefaultHubRegistrationFeatureGates))
	fail(features.HubMutableFeatureGate.Add(feature.DefaultHubWorkFeatureGates))
	fail(features.HubMutableFeatureGate.Set("DefaultClusterSet=true,ManifestWorkReplicaSet=true"))
	workcommon.ManifestValidator.WithLimit(workwebhook.NewOptions().ManifestLimit)
	scheme := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme) error{
		kubernetes.AddToScheme,
		clusterv1.Install,
		registrationv1beta2.Install,
		workv1.Install,
		workv1alpha1.Install,
		addonv1alpha1.Install,
		addonv1beta1.Install,
	} {
		fail(install(scheme))
	}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 scheme,
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		WebhookServer: webhook.NewServer(
			webhook.Options{Host: address, Port: port, CertDir: certificates}),
	})
	fail(err)
	for _, each := range []options.WebhookInitializer{
		&registrationv1.ManagedClusterWebhook{},
		&registrationv1beta2.ManagedClusterSetBindingWebhook{},
		&workwebhookv1.ManifestWorkWebhook{},
		&workwebhookv1alpha1.ManifestWorkReplicaSetWebhook{},
		&addonv1alpha1.ManagedClusterAddOnWebhook{},
		&addonv1beta1.ManagedClusterAddOnWebhook{},
		&addonv1alpha1.ClusterManagementAddOnWebhook{},
		&addonv1beta1.ClusterManagementAddOnWebhook{},
	} {
		fail(each.Init(manager))
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

// Prints manifests as OCM's operators would make them of their templates: one JSON in a line each.
func newManifests() *cobra.Command {
	run := func(_ *cobra.Command, arguments []string) {
		var values map[string]any
		fail(json.Unmarshal([]byte(arguments[0]), &values))
		for _, pattern := range arguments[1:] {
			printManifests(manifests.ClusterManagerManifestFiles, pattern, values)
			printManifests(manifests.KlusterletManifestFiles, pattern, values)
		}
	}
	return &cobra.Command{Use: "manifests VALUES PATTERN...", Args: cobra.MinimumNArgs(2), Run: run}
}

func printManifests(folder embed.FS, pattern string, values map[string]any) {
	paths, err := fs.Glob(folder, pattern)
	fail(err)
	for _, path := range paths {
		text, err := folder.ReadFile(path)
		fail(err)
		parsed, err := template.New(path).Parse(string(text))
		fail(err)
		var rendered bytes.Buffer
		fail(parsed.Execute(&rendered, values))
		line, err := yaml.YAMLToJSON(rendered.Bytes())
		fail(err)
		fmt.Println(string(line))
	}
}
