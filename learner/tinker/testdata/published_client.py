"""One cycle of the published client against a server: python published_client.py URL

Reads {"rows": [[ids]], "advantages": [[…]], "prompt": [ids]} on standard input, scores the
rows, takes a step of importance sampling, saves, samples, loads, scores again. Writes what
it got as JSON.
"""

import json
import sys

import tinker
from tinker import types


def datum(ids, **columns):
    n = len(ids) - 1
    inputs = {"target_tokens": types.TensorData(data=ids[1:], dtype="int64", shape=[n])}
    for name, data in columns.items():
        inputs[name] = types.TensorData(data=data, dtype="float32", shape=[n])
    return types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs)


def main():
    asked = json.load(sys.stdin)
    service = tinker.ServiceClient(base_url=sys.argv[1], api_key="tml-test")
    out = {"models": [m.model_name for m in service.get_server_capabilities().supported_models]}
    training = service.create_lora_training_client(base_model=out["models"][0], rank=8, seed=1)
    ones = [[1.0] * (len(ids) - 1) for ids in asked["rows"]]

    def score(client):
        data = [datum(ids, weights=w) for ids, w in zip(asked["rows"], ones)]
        return [row["logprobs"].tolist() for row in client.forward(data, "cross_entropy").result().loss_fn_outputs]

    out["before"] = score(training)
    data = [
        datum(ids, logprobs=p, advantages=a, weights=w)
        for ids, p, a, w in zip(asked["rows"], out["before"], asked["advantages"], ones)
    ]
    backward = training.forward_backward(data, "importance_sampling")
    step = training.optim_step(types.AdamParams(learning_rate=0.01, beta1=0.9, beta2=0.999, eps=1e-8))
    backward.result()
    out["metrics"] = step.result().metrics
    out["after"] = score(training)
    sampler = training.save_weights_and_get_sampling_client()
    sampled = sampler.sample(
        prompt=types.ModelInput.from_ints(asked["prompt"]), num_samples=2,
        sampling_params=types.SamplingParams(max_tokens=8, seed=7, temperature=1.0, stop=[3]), include_prompt_logprobs=True,
    ).result()
    out["sampled"] = [{"tokens": s.tokens, "logprobs": s.logprobs, "stop_reason": s.stop_reason} for s in sampled.sequences]
    out["prompt_logprobs"] = sampled.prompt_logprobs
    out["path"] = training.save_state("cycle").result().path
    print(json.dumps(out))


main()
