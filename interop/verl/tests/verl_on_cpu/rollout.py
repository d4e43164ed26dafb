"""A rollout server on CPUs: one Ray actor that samples token by token."""
import os

import ray
import torch

from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput


@ray.remote(num_cpus=0)
class Server:
    def __init__(self, path):
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
        torch.set_num_threads(1)
        self.model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path)).eval()
        self.eos = AutoTokenizer.from_pretrained(path).eos_token_id
        self.steps, self.updates = None, 0

    async def load(self, weights, global_steps):
        missing, unexpected = self.model.load_state_dict({k: v.float() for k, v in weights.items()}, strict=False)
        assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
        self.model.tie_weights()
        self.steps, self.updates = global_steps, self.updates + 1

    async def generate(self, request_id, prompt_ids, sampling_params, image_data=None, video_data=None, **_):
        with torch.no_grad():
            return self.sample(prompt_ids, sampling_params)

    def sample(self, prompt_ids, sampling_params):
        limit = sampling_params.get("max_tokens") or sampling_params.get("max_new_tokens") or 16
        temperature = sampling_params.get("temperature", 1.0)
        ids, log_probs, cache, x = [], [], None, torch.tensor([prompt_ids])
        for _ in range(limit):
            out = self.model(x, past_key_values=cache, use_cache=True)
            cache, logits = out.past_key_values, out.logits[0, -1].float()
            lp = torch.log_softmax(logits / (temperature or 1.0), -1)
            token = int(lp.argmax()) if temperature == 0 else int(torch.multinomial(lp.exp(), 1))
            ids.append(token)
            log_probs.append(float(lp[token]))
            if token == self.eos:
                break
            x = torch.tensor([[token]])
        return TokenOutput(token_ids=ids, log_probs=log_probs, stop_reason="completed", num_preempted=0, extra_fields={"global_steps": self.steps})

    async def noop(self, *a, **k):
        return None

    wake_up = sleep = abort_all_requests = resume_generation = clear_kv_cache = release_kv_cache = resume_kv_cache = start_profile = stop_profile = noop


class Replica(RolloutReplica):
    async def launch_servers(self):
        path = self.model_config.path if hasattr(self.model_config, "path") else self.model_config["path"]
        server = Server.options(name=f"verl_on_cpu_server_{self.replica_rank}").remote(path)
        self.servers, self._server_handle, self._server_address = [server], server, f"cpu:{self.replica_rank}"


class Adapter(BaseRollout):
    def __init__(self, config, model_config, device_mesh, replica_rank=-1, **_):
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = int(os.environ["RANK"]) if replica_rank == -1 else replica_rank

    async def resume(self, tags):
        return None

    async def release(self):
        return None

    async def update_weights(self, weights, global_steps=None, wire_format="named_tensors", **_):
        state = {name: w.detach().to(torch.float32).cpu().clone() for name, w in weights}
        await ray.get_actor(f"verl_on_cpu_server_{self.replica_rank}").load.remote(state, global_steps)
