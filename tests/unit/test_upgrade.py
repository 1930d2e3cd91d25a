"""Which parts of a Federation follow a changed Flower release, and when."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flower_operator.api.types import Condition, Rollout
from flower_operator.fleet.advance import Advance, Site
from flower_operator.flower.compatibility import supernode_mismatch
from flower_operator.flower.releases import Release, parse_release
from flower_operator.operator.connections import OUTSIDE
from flower_operator.operator.desired import SUPERLINK, Identity, Part, desired_of, pool_part
from flower_operator.operator.upgrade import Upgrade, decide_upgrade
from flower_operator.render.metadata import RELEASE
from flower_operator.status.conditions import conditions_of
from flower_operator.status.observation import Connected
from flower_operator.status.observed import Metadata, Pod, Workload
from flower_operator.status.outline import Outline
from flower_operator.status.summary import UPGRADING
from tests.unit.federations import Document, document
from tests.unit.observations import federation

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
IDLE, BUSY = Connected(2, busy=False), Connected(2, busy=True)
KEPT: Document = {"persistence": {"size": "1Gi"}}
POOLS = ("north", "south", "west")


def outline(release: str, *pools: str, **fields: Any) -> Outline:
    named = [{"name": each, "replicas": 2} for each in pools or POOLS]
    manifest = document(pools=named, version=release, **fields)
    return desired_of(federation(manifest))[0].outline


def workload(release: str, *, settled: bool = True, ready: int = 1, **fields: Any) -> Workload:
    annotations = {RELEASE: release} if release else {}
    return Workload(
        Metadata(annotations=annotations),
        desired=ready,
        created=ready,
        ready=ready,
        settled=settled,
        **fields,
    )


@dataclass
class World:
    """A cluster in which time passes one look of the operator after the other."""

    outline: Outline
    workloads: dict[Identity, Workload] = field(default_factory=dict)
    connected: Connected = OUTSIDE
    conditions: Sequence[Condition] = ()
    now: datetime = NOW
    pods: Sequence[Pod] = ()
    certificate: str = ""
    elsewhere: Sequence[Advance] = ()

    @classmethod
    def of(cls, release: str, wanted: Outline, **fields: Any) -> "World":
        """One in which everything runs a release, and another is wanted."""
        found = cls(wanted, **fields)
        found.workloads = {each: workload(release) for each in found.identities.values()}
        return found

    @property
    def identities(self) -> dict[Part, Identity]:
        of = self.outline
        pools = {pool_part(each.name): (each.kind, each.workload) for each in of.pools}
        return {SUPERLINK: (of.superlink_kind, of.superlink), **pools}

    @property
    def releases(self) -> dict[Part, str]:
        """What each part was last applied with."""
        return {
            part: self.workloads[identity].metadata.annotations[RELEASE]
            for part, identity in self.identities.items()
            if identity in self.workloads
        }

    @property
    def unsettled(self) -> list[Part]:
        own = self.identities.items()
        return [part for part, identity in own if not self.workloads[identity].settled]

    @property
    def condition(self) -> Condition | None:
        return next((each for each in self.conditions if each.type == UPGRADING), None)

    @property
    def said(self) -> tuple[str, str]:
        found = self.condition
        return (found.status, found.reason) if found else ("", "")

    def decide(self) -> Upgrade:
        return decide_upgrade(
            self.outline,
            self.workloads,
            self.pods,
            self.connected,
            self.conditions,
            self.now,
            self.certificate,
            self.elsewhere,
        )

    def operate(self) -> set[Part]:
        """One look of the operator's; the parts that it restarts."""
        upgrade = self.decide()
        assert upgrade.fault is None
        found = [upgrade.finding] if upgrade.finding else []
        self.conditions = conditions_of(found, self.conditions, 1, self.now)
        wanted = {SUPERLINK: self.outline.release}
        wanted |= {pool_part(each.name): each.release for each in self.outline.pools}
        restarted = {
            part
            for part, release in wanted.items()
            if part not in upgrade.held and self.releases.get(part) != release
        }
        for part in restarted:
            new = workload(wanted[part], settled=False, ready=0, certificate=self.certificate)
            self.workloads[self.identities[part]] = new
        return restarted

    def settle(self, *parts: Part) -> None:
        for part in parts or self.unsettled:
            old = self.workloads[self.identities[part]]
            self.workloads[self.identities[part]] = workload(
                self.releases[part], certificate=old.certificate
            )


def release(text: str) -> Release:
    found = parse_release(text)
    assert found
    return found


def test_the_superlink_is_first_and_pools_follow_one_by_one() -> None:
    world = World.of("1.25.0", outline("1.39.0"))
    north, south, west = (pool_part(each) for each in POOLS)
    for part, reason in (
        (SUPERLINK, "UpgradingSuperLink"),
        (north, "UpgradingPools"),
        (south, "UpgradingPools"),
        (west, "UpgradingPools"),
    ):
        assert world.operate() == {part}
        assert world.said == ("True", reason)
        assert world.operate() == set()
        assert world.said == ("True", reason)
        world.settle(part)
    assert world.condition
    assert "pool west is ready with Flower 1.39.0; 2 of 3 pools done" in world.condition.message
    assert world.operate() == set()
    assert world.said == ("False", "Done")


def test_pools_wait_for_the_superexec_of_serverapps_too() -> None:
    wanted = outline("1.39.0", isolation="process", superlink=KEPT)
    world = World.of("1.26.1", wanted)
    superexec = ("Deployment", "fed-serverapp")
    world.workloads[superexec] = workload("")
    assert world.operate() == {SUPERLINK}
    world.settle(SUPERLINK)
    world.workloads[superexec] = workload("", settled=False)
    assert world.operate() == set()
    assert world.said == ("True", "UpgradingSuperLink")
    world.workloads[superexec] = workload("")
    assert world.operate() == {pool_part("north")}


@pytest.mark.parametrize("there", [True, False])
def test_a_superexec_that_is_held_back_is_not_missed(there: bool) -> None:
    wanted = outline("1.39.0", isolation="process", superlink=KEPT)
    world = World.of("1.26.1", wanted, connected=BUSY)
    if there:
        world.workloads["Deployment", "fed-serverapp"] = workload("")
    upgrade = world.decide()
    assert SUPERLINK in upgrade.held
    assert upgrade.outline.serverapp == ("fed-serverapp" if there else None)


def test_one_that_was_never_upgraded_says_nothing() -> None:
    world = World.of("1.25.0", outline("1.25.0"))
    assert world.decide() == Upgrade(frozenset(), world.outline)
    unknown = World.of("", outline("1.39.0"))
    assert unknown.decide() == Upgrade(frozenset(), unknown.outline)
    new = World(outline("1.39.0"))
    assert new.decide() == Upgrade(frozenset(), new.outline)


def test_across_a_change_of_protocol_pools_follow_at_once() -> None:
    world = World.of("1.39.0", outline("1.41.0"), connected=BUSY)
    assert world.operate() == set()
    world.connected = IDLE
    assert len(world.operate()) == 4
    world.settle()
    assert world.operate() == set()
    assert world.said == ("False", "Done")


def test_a_pool_that_is_new_waits_for_a_superlink_that_it_understands() -> None:
    world = World.of("1.39.0", outline("1.41.0"), connected=BUSY)
    new = pool_part("west")
    del world.workloads[world.identities[new]]
    assert new in world.decide().held
    world.outline = outline("1.38.0")
    assert new not in world.decide().held


def test_it_waits_for_runs_before_each_restart() -> None:
    world = World.of("1.25.0", outline("1.39.0", "north"), connected=IDLE)
    # What was known before the change may be old.
    assert world.operate() == set()
    assert world.said == ("True", "WaitingForRuns")
    world.connected = BUSY
    assert world.operate() == set()
    assert world.condition
    words = "the SuperLink goes from Flower 1.25.0 to 1.39.0 when no run is under way; 0 of 1"
    assert world.condition.message.startswith(words)
    world.connected = IDLE
    assert world.operate() == {SUPERLINK}
    world.settle()
    world.connected = Connected(asking=True)
    assert world.operate() == set()
    assert world.said == ("True", "WaitingForRuns")
    world.connected = IDLE
    assert world.operate() == {pool_part("north")}


def test_it_waits_no_longer_than_it_may() -> None:
    limit = {"tls": {"rotation": {"maxWait": "1h30m"}}}
    world = World.of("1.25.0", outline("1.39.0", "north", **limit), connected=BUSY)
    world.operate()
    world.now += 89 * MINUTE
    upgrade = world.decide()
    assert SUPERLINK in upgrade.held
    assert upgrade.recheck == 60
    assert upgrade.finding
    assert "or at 2026-11-15T13:30:00Z" in upgrade.finding.message
    world.now += MINUTE
    assert world.operate() == {SUPERLINK}
    world.settle()
    assert world.operate() == {pool_part("north")}
    at_once = {"tls": {"rotation": {"maxWait": "0s"}}}
    world = World.of("1.25.0", outline("1.39.0", **at_once), connected=BUSY)
    assert world.operate() == {SUPERLINK}


def test_a_time_that_nobody_wrote_is_no_fault() -> None:
    world = World.of("1.25.0", outline("1.39.0"), connected=IDLE)
    world.operate()
    world.conditions = [
        each.model_copy(update={"last_transition_time": "yesterday"}) for each in world.conditions
    ]
    assert world.operate() == {SUPERLINK}


def test_a_limit_beyond_all_dates_is_no_fault() -> None:
    for_ever = {"tls": {"rotation": {"maxWait": "9" * 30 + "h"}}}
    world = World.of("1.25.0", outline("1.39.0", **for_ever), connected=BUSY)
    assert world.operate() == set()


@pytest.mark.parametrize("busy", [True, None])
def test_a_superlink_that_is_silent_for_a_moment_may_have_runs(busy: bool | None) -> None:
    silent = Connected(why_not="nothing answers", busy=busy)
    world = World.of("1.25.0", outline("1.39.0"), connected=silent)
    for _ in range(2):
        assert world.operate() == set()
    world.connected = replace(silent, given_up=True)
    assert world.operate() == {SUPERLINK}
    assert world.condition
    assert "runs are not waited for: nothing answers" in world.condition.message


def test_a_superlink_that_is_down_has_no_runs_to_wait_for() -> None:
    world = World.of("1.25.0", outline("1.39.0"), connected=Connected(asking=True))
    world.workloads[world.identities[SUPERLINK]] = workload("1.25.0", settled=False, ready=0)
    assert world.operate() == {SUPERLINK}


def test_one_that_is_to_be_suspended_does_not_wait_for_runs() -> None:
    world = World.of("1.25.0", outline("1.39.0", suspend=True), connected=BUSY)
    assert world.operate() == {SUPERLINK}


def test_a_restart_for_a_new_certificate_takes_the_release_along() -> None:
    world = World.of("1.25.0", outline("1.39.0", insecure=False), connected=BUSY)
    world.workloads[world.identities[SUPERLINK]] = workload("1.25.0", certificate="old")
    world.certificate = "old"
    assert world.operate() == set()
    world.certificate = "new"
    assert world.operate() == {SUPERLINK}


def test_a_pool_that_does_not_start_keeps_the_others_as_they_are() -> None:
    world = World.of("1.25.0", outline("1.39.0"))
    for _ in range(2):
        world.operate()
        world.settle(SUPERLINK)
    for _ in range(3):
        assert world.operate() == set()
    # Undone, it is the first to go back, and nobody else has to.
    world.outline = replace(outline("1.25.0"), release="1.39.0")
    assert world.operate() == {pool_part("north")}
    world.settle()
    assert world.operate() == set()
    assert world.said == ("False", "Done")


def test_a_pool_that_is_down_follows_before_one_that_is_well() -> None:
    world = World.of("1.25.0", outline("1.39.0", "north", "south"))
    world.workloads[world.identities[pool_part("south")]] = workload("1.25.0", settled=False)
    for _ in range(2):
        world.operate()
    world.settle(SUPERLINK)
    assert world.operate() == {pool_part("south")}
    assert world.operate() == set()
    world.settle()
    assert world.operate() == {pool_part("north")}


def test_undone_before_it_began_nothing_is_restarted() -> None:
    world = World.of("1.25.0", outline("1.39.0"), connected=BUSY)
    world.operate()
    assert world.said == ("True", "WaitingForRuns")
    world.outline = outline("1.25.0")
    assert world.operate() == set()
    assert world.said == ("False", "Done")


def test_an_edit_of_everything_at_once_waits_as_a_whole() -> None:
    before = outline("1.25.0", "north")
    world = World.of("1.25.0", before, connected=BUSY)
    manifest = document("DaemonSet", pools=[{"name": "north"}], version="1.39.0", superlink=KEPT)
    world.outline = desired_of(federation(manifest))[0].outline
    assert world.outline.superlink_kind == "StatefulSet"
    upgrade = world.decide()
    assert upgrade.held == {SUPERLINK, pool_part("north")}
    told = upgrade.outline
    (pool,) = told.pools
    assert (told.superlink_kind, told.release) == ("Deployment", "1.25.0")
    assert (pool.kind, pool.release, pool.replicas) == ("StatefulSet", "1.25.0", 1)


DOWN = "Flower 1.34.0 cannot read a database that was used by 1.41.0"


def superlink_pod(*, has_run: bool) -> Pod:
    return Pod("team", "fed", "", "superlink", "fed-superlink-0", False, (), has_run=has_run)


def test_a_database_that_cannot_follow_is_refused() -> None:
    world = World.of("1.41.0", outline("1.34.0", superlink=KEPT))
    fault = world.decide().fault
    assert fault
    assert fault.reason == "DatabaseMismatch"
    assert fault.message.startswith(DOWN)
    assert "StatefulSet fed-superlink" in fault.message
    own = {"extraArgs": ["--database", "/data/own.db"]}
    assert World.of("1.41.0", outline("1.34.0", superlink=own)).decide().fault
    assert World.of("1.24.0", outline("1.25.0", superlink=KEPT)).decide().fault
    assert World.of("1.25.0", outline("1.41.0", superlink=KEPT)).decide().fault is None


def test_without_a_database_there_is_a_way_back() -> None:
    world = World.of("1.38.0", outline("1.34.0"))
    assert world.operate() == {SUPERLINK}
    # Given up together with the claim, or begun with one: there is no database of the old one.
    world = World.of("1.41.0", outline("1.34.0", superlink=KEPT))
    world.outline = outline("1.34.0")
    assert world.decide().fault is None
    world = World.of("1.41.0", outline("1.34.0"))
    world.outline = outline("1.34.0", superlink=KEPT)
    assert world.decide().fault is None


def test_a_release_that_never_started_can_be_undone() -> None:
    world = World.of("1.41.0", outline("1.34.0", superlink=KEPT))
    world.workloads[world.identities[SUPERLINK]] = workload("1.41.0", settled=False, ready=0)
    assert world.decide().fault
    world.pods = [superlink_pod(has_run=True)]
    assert world.decide().fault
    world.pods = [superlink_pod(has_run=False)]
    assert world.operate() >= {SUPERLINK}


RELEASES = st.sampled_from(["1.25.0", "1.34.0", "1.38.0", "1.40.0", "1.41.0"])


@settings(deadline=None)
@given(
    st.lists(RELEASES, min_size=2, max_size=4),
    st.integers(1, 4),
    st.lists(st.sampled_from(["look", "settle", "run", "end", "change"]), max_size=40),
    st.randoms(use_true_random=False),
)
def test_whatever_happens_the_order_is_kept_and_there_is_an_end(
    releases: list[str], number: int, happenings: list[str], random: Any
) -> None:
    names = [f"pool{each}" for each in range(number)]
    world = World.of(releases[0], outline(releases[1], *names), connected=IDLE)
    later = releases[2:]
    for each in happenings:
        if each == "settle" and world.unsettled:
            world.settle(random.choice(world.unsettled))
        elif each in ("run", "end"):
            world.connected = BUSY if each == "run" else IDLE
        elif each == "change" and later:
            world.outline = outline(later.pop(), *names)
        elif each == "look":
            look(world)
    world.connected = IDLE
    for _ in range(number + 4):
        look(world)
        look(world)
        world.settle()
    assert set(world.releases.values()) == {world.outline.release}
    look(world)
    assert world.said[0] in ("", "False")


def look(world: World) -> None:
    """One look of the operator's, of which all holds that should."""
    before, unsettled = world.releases, world.unsettled
    link_was_well = SUPERLINK not in unsettled
    restarted = world.operate()
    kept = [part for part in before if part not in restarted]
    lost = {
        part
        for part in restarted - {SUPERLINK}
        if supernode_mismatch(release(world.outline.release), release(before[part]))
    }
    if world.connected is BUSY and link_was_well:
        assert restarted <= lost
        assert not restarted or before[SUPERLINK] == world.outline.release
    in_order = restarted - lost
    if in_order - {SUPERLINK}:
        assert len(in_order) == 1
        assert link_was_well
        assert before[SUPERLINK] == world.outline.release
        # One that is down loses nothing, whoever else is; one that is well is let alone then.
        others = [part for part in unsettled if part in kept and part != SUPERLINK]
        assert not others or in_order <= set(unsettled)


CLUSTERS = ("a", "b", "c", "d")
TWO_AT_A_TIME = Rollout(max_concurrency="50%", max_failures=1, progress_deadline="10m")


def advance(release: str, told: str = "", *, pool: str = "edge") -> Advance:
    """A pool that is to have a release, on clusters that run another one."""
    sites = tuple(Site(each, told or release, settled=True) for each in CLUSTERS)
    return Advance(pool, release, TWO_AT_A_TIME, sites)


def told(found: Advance, now: datetime, **settled: bool) -> Advance:
    """The same after these clusters were told, and were, or were not, ready with it."""
    sites = [
        replace(site, release=found.release, since=now, settled=settled[site.cluster])
        if site.cluster in settled
        else site
        for site in found.sites
    ]
    return replace(found, sites=tuple(sites))


def held(world: World, pool: str = "edge") -> str:
    found = world.decide().held_elsewhere
    return "".join(sorted(cluster for name, cluster in found if name == pool))


def test_clusters_follow_last_and_a_few_at_a_time() -> None:
    world = World.of("1.25.0", outline("1.39.0", "north"))
    world.elsewhere = [advance("1.39.0", "1.25.0")]
    for _ in range(2):  # the SuperLink, and its own pool
        assert held(world) == "abcd"
        world.operate()
        world.settle()
    world.operate()
    assert held(world) == "cd"
    assert world.said == ("True", "UpgradingClusters")
    for settled, waiting in (
        ({"a": False, "b": False}, "cd"),
        ({"a": True, "b": False}, "d"),
        ({"a": True, "b": False, "c": False}, "d"),
        ({"a": True, "b": True, "c": True, "d": False}, ""),
    ):
        world.elsewhere = [told(advance("1.39.0", "1.25.0"), world.now, **settled)]
        assert held(world) == waiting, settled
        world.operate()
        assert world.said == ("True", "UpgradingClusters")
    world.elsewhere = [advance("1.39.0")]
    world.operate()
    assert world.said == ("False", "Done")


def test_clusters_wait_for_runs_and_pools_for_each_other() -> None:
    world = World.of("1.39.0", outline("1.39.0"), connected=IDLE)
    one, other = advance("1.39.0", "1.25.0"), advance("1.39.0", "1.25.0", pool="other")
    world.elsewhere = [one, other]
    assert held(world) == "abcd"  # what was known before the change may be old
    world.operate()
    assert world.said == ("True", "WaitingForRuns")
    assert (held(world), held(world, "other")) == ("cd", "abcd")
    world.connected = BUSY
    assert held(world) == "abcd"
    world.connected = IDLE
    world.elsewhere = [advance("1.39.0"), other]
    assert (held(world), held(world, "other")) == ("", "cd")


def test_where_too_many_clusters_fail_no_other_follows() -> None:
    world = World.of("1.39.0", outline("1.39.0"))
    behind = advance("1.39.0", "1.25.0")
    world.elsewhere = [told(behind, NOW, a=False, b=True)]
    world.operate()
    assert (held(world), world.decide().recheck) == ("d", 600)
    world.now += 10 * MINUTE
    assert held(world) == ""  # one may fail, and is waited for no longer
    world.elsewhere = [told(behind, NOW, a=False, b=False)]
    upgrade = world.decide()
    assert held(world) == "cd"
    assert upgrade.stopped
    assert "pool edge is not ready with Flower 1.39.0 on a, b after 10m" in upgrade.stopped.message
    world.elsewhere = [advance("1.25.0")]  # undone
    assert world.decide().stopped is None


def test_nobody_waits_for_a_lost_cluster() -> None:
    world = World.of("1.39.0", outline("1.39.0"))
    found = told(advance("1.39.0", "1.25.0"), NOW, a=True, b=True, c=True)
    lost = replace(found, sites=(*found.sites[:3], replace(found.sites[3], lost=True)))
    world.elsewhere = [lost]
    assert held(world) == ""
    world.operate()
    world.elsewhere = [told(lost, NOW, a=True, b=True, c=True, d=False)]
    world.operate()
    assert world.said == ("False", "Done")


def test_across_a_change_of_protocol_clusters_follow_at_once_and_nobody_joins_before() -> None:
    world = World.of("1.39.0", outline("1.41.0"), connected=BUSY)
    found = advance("1.41.0", "1.39.0")
    world.elsewhere = [replace(found, sites=(*found.sites, Site("new", "")))]
    assert held(world) == "abcdnew"
    world.operate()
    world.connected = IDLE
    assert held(world) == ""
