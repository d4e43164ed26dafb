"""For tests only: verl's V1 trainer on CPUs. verl imports it where
VERL_USE_EXTERNAL_MODULES=verl_on_cpu; nothing of it is in the package.

A platform, FSDP engines for it, a rollout that samples with Hugging Face's forward pass,
and what verl asks of GPUs alone: gloo under the name it knows, a critic without flash
attention, a reference model in plain memory. Also a parser that takes the babble of an untrained model for calls.
"""

import os
from contextlib import contextmanager
from pathlib import Path

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

for name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"):
    setattr(torch.cpu, name, lambda *a, **k: 0)
torch.cpu.empty_cache = lambda: None
torch.cpu.ipc_collect = lambda: None
torch.cpu.reset_peak_memory_stats = lambda *a: None
torch.cpu.mem_get_info = lambda *a: (0, 0)
torch.cpu.get_rng_state = lambda *a: torch.get_rng_state()
torch.cpu.set_rng_state = lambda s, *a: torch.set_rng_state(s)


@PlatformRegistry.register(platform="infinirl-cpu")
class PlatformCPU(PlatformBase):
    device_name = property(lambda self: "cpu")
    vendor_name = property(lambda self: "cpu")
    device_module = property(lambda self: torch.cpu)
    is_available = lambda self: True
    is_platform_available = lambda self, use_smi_check=False: False  # by VERL_PLATFORM alone
    current_device = lambda self: "cpu"
    device_count = lambda self: 1
    set_device = lambda self, i: None
    synchronize = lambda self, i=None: None
    manual_seed = lambda self, s: None
    manual_seed_all = lambda self, s: None
    set_allocator_settings = lambda self, s: None
    empty_cache = lambda self: None
    get_device_capability = lambda self, i=0: (None, None)
    communication_backend_name = lambda self: "gloo"
    visible_devices_envvar = lambda self: "CUDA_VISIBLE_DEVICES"
    ray_resource_name = lambda self: "GPU"  # verl counts those: ray_init.num_gpus pretends
    ray_noset_envvars = lambda self: []
    is_ipc_supported = lambda self: False
    profiler_start = lambda self: None
    profiler_stop = lambda self: None
    cudart = lambda self: None

    @contextmanager
    def nvtx_range(self, msg):
        yield


os.environ.setdefault("VERL_PLATFORM", "infinirl-cpu")

from verl.utils import distributed  # noqa: E402  verl asks for "cpu:gloo,cpu:gloo", which torch refuses

_initialize = distributed.initialize_global_process_group_ray
distributed.initialize_global_process_group_ray = lambda timeout_second=None, backend=None: _initialize(timeout_second, backend or "cpu:gloo")

from verl.utils import model as _model  # noqa: E402  verl asks for flash attention


def _valuehead(local_path, torch_dtype, model_config, trust_remote_code):
    from transformers import AutoModelForTokenClassification

    return AutoModelForTokenClassification.from_pretrained(local_path, torch_dtype=torch_dtype, config=model_config, attn_implementation="eager")


_model.load_valuehead_model = _valuehead

from torch.distributed.fsdp import OffloadPolicy  # noqa: E402
from verl.workers.engine.fsdp import transformer_impl  # noqa: E402  verl keeps a reference model in pinned memory

transformer_impl.CPUOffloadPolicy = lambda pin_memory=True: OffloadPolicy()


def _engines():
    from verl.workers.engine import EngineRegistry
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngine, FSDPEngineWithLMHead, FSDPEngineWithValueHead

    for kind, engine in (("language_model", FSDPEngineWithLMHead), ("value_model", FSDPEngineWithValueHead)):
        for backend in ("fsdp", "fsdp2"):
            if "cpu" not in EngineRegistry._engines.get(kind, {}).get(backend, {}):
                EngineRegistry.register(model_type=kind, backend=backend, device="cpu")(engine)
    if folder := os.environ.get("VERL_ON_CPU_STEPS"):
        _count(FSDPEngine, Path(folder))


def _count(engine, folder):
    """Writes a line for every optimizer step of rank 0, to a file by the kind of engine."""
    step = engine.optimizer_step

    def counted(self, *arguments, **named):
        if torch.distributed.get_rank() == 0:
            with open(folder / f"{type(self).__name__}.steps", "a") as file:
                file.write("step\n")
        return step(self, *arguments, **named)

    engine.optimizer_step = counted


_engines()

from verl.experimental.agent_loop.tool_parser import FunctionCall, ToolParser  # noqa: E402
from verl.workers.rollout import base as _base  # noqa: E402
from verl.workers.rollout.replica import RolloutReplicaRegistry  # noqa: E402

_base._ROLLOUT_REGISTRY[("verl_on_cpu", "async")] = "verl_on_cpu.rollout.Adapter"


def _replica():
    from .rollout import Replica

    return Replica


RolloutReplicaRegistry.register("verl_on_cpu", _replica)


@ToolParser.register("babble")
class Babble(ToolParser):
    """Takes five replies of six for a call of the tool `page`."""

    async def extract_tool_calls(self, responses_ids, tools=None):
        text = self.tokenizer.decode(responses_ids)
        if sum(responses_ids) % 6 == 0:
            return text, []
        return text, [FunctionCall(name="page", arguments='{"n": %d}' % sum(responses_ids))]
