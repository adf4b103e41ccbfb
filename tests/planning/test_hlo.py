"""What devices send, read from the text of compiled programs."""

import jax
import planned_models
import pytest

from chapter18 import planning
from chapter18.planning import _hlo

PROGRAM = """\
HloModule jit_step, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%a, %b)
}

%below (p: (s32[], f32[8])) -> pred[] {
  %limit = s32[] constant(5)
  %i = s32[] get-tuple-element(%p), index=0
  ROOT %lt = pred[] compare(%i, %limit), direction=LT
}

%body (p.1: (s32[], f32[8])) -> (s32[], f32[8]) {
  %ar = f32[8]{0} all-reduce(%x), channel_id=1, replica_groups=[2,4]<=[8], to_apply=%add
  %inner = (s32[], f32[8]) while(%t), condition=%below.2, body=%twice, %KNOWN%
}

%twice (p.2: (s32[], f32[8])) -> (s32[], f32[8]) {
  %cp = (f32[4]{0}, f32[4]{0}, u32[], u32[]) collective-permute-start(%y), channel_id=2
  %done = f32[4]{0} collective-permute-done(%cp)
}

%copy.1 (p.3: bf16[2]) -> bf16[16] {
  %ag = bf16[16]{0} all-gather(%p.3), channel_id=3, replica_groups={{0,1,2,3,4,5,6,7}}
}

%copy.2 (p.4: bf16[2]) -> bf16[16] {
  %ag.1 = bf16[16]{0} all-gather(%p.4), channel_id=3, replica_groups={{0,1,2,3,4,5,6,7}}
}

ENTRY %main (p.5: f32[8]) -> f32[8] {
  %loop = (s32[], f32[8]) while(%t.0), condition=%below, body=%body
  %f = bf16[16] fusion(%p.5), calls=%copy.1
  %g = bf16[16] fusion(%p.5), calls=%copy.2
  %rs = f32[2]{0} reduce-scatter(%z), channel_id=4, replica_groups=[2,4]<=[8], to_apply=%add
  %aa = (s8[4]{0}, /*index=1*/s8[4]{0}) all-to-all(%u, %v), channel_id=5, replica_groups=[4,2]<=[8]
  %alone = f32[9]{0} all-reduce(%w), channel_id=6, replica_groups=[8,1]<=[8], to_apply=%add
  ROOT %r = f32[8] copy(%loop)
}
""".replace("%KNOWN%", 'backend_config={"known_trip_count":{"n":"2"}}')


def test_collectives_are_read_from_a_program():
    found = {c.kind: c for c in _hlo.find(PROGRAM, 8)}
    assert found["all-reduce"] == ("all-reduce", 32, 4, 5)
    assert found["collective-permute"] == ("collective-permute", 16, 8, 10)
    assert found["all-gather"] == ("all-gather", 32, 8, 1)
    assert found["reduce-scatter"] == ("reduce-scatter", 32, 4, 1)
    assert found["all-to-all"] == ("all-to-all", 8, 2, 1)
    assert len(found) == 5


@pytest.mark.parametrize(
    ("groups", "devices"),
    [
        ("[2,4]<=[8]", 4),
        ("{{0,1},{2,3},{4,5},{6,7}}", 2),
        ("{}", 8),
        ("mesh['data'=2,'model'=4] {'model'}", 4),
        ("mesh['data'=2,'model'=4] {'data','model'}", 8),
        ("mesh['data'=2,'model'=4] {'model':(1)2}", 2),
    ],
)
def test_every_way_to_write_a_ring_is_read(groups, devices):
    line = f"  %a = f32[2]{{0}} all-reduce(%x), replica_groups={groups}, to_apply=%add"
    (found,) = _hlo.find(line, 8)
    assert found.devices == devices


def test_what_a_ring_sends():
    sent = {c.kind: c.sent for c in _hlo.find(PROGRAM, 8)}
    assert sent == {
        "all-reduce": 5 * 2 * 3 * 32 // 4,
        "collective-permute": 10 * 16,
        "all-gather": 7 * 32 // 8,
        "reduce-scatter": 3 * 32 // 4,
        "all-to-all": 4,
    }


# What a compiler says that refuses.

TOO_LARGE = """\
RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 23.04G of 15.75G hbm.
Total hbm usage >= 23.30G:
    reserved        258.00M
    program           5.50G
    arguments        17.55G
"""


@pytest.fixture
def refusing(monkeypatch):
    """Plans a small model here, where the compiler says what it is told to."""
    jax.devices()  # awake with a device, so that the plan is made here

    def plan(message):
        def compile(_):
            raise jax.errors.JaxRuntimeError(message)

        monkeypatch.setattr(jax.stages.Lowered, "compile", compile)
        return planning.plan(planned_models.small, mesh={"data": 1}, batch_size=8)

    return plan


def test_a_step_that_the_compiler_finds_too_large_is_a_plan_that_says_so(refusing):
    plan = refusing(TOO_LARGE)
    assert plan.estimate.refusal == "needs 23.04 GiB of 15.75 GiB"
    assert plan.estimate.temporaries == int(5.5 * 2**30)
    assert plan.estimate.collective_bytes is None
    assert plan.parameter_bytes == 4 * (24 * 32 + 32 + 32 * 8 + 8)
    assert "the compiler refuses: it needs 23.04 GiB" in repr(plan)


def test_a_compiler_that_fails_otherwise_is_quoted(refusing):
    with pytest.raises(RuntimeError, match=r"could not compile the step.*Mosaic.*estimate=False"):
        refusing("INTERNAL: Mosaic failed")
