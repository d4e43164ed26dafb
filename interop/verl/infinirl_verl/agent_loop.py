"""verl's tool agent in a window that is condensed: a row a segment.

Tools, parsers and rewards are verl's, and so is rollout.multi_turn. An entry of
agent.yaml (actor_rollout_ref.rollout.agent.agent_loop_config_path) configures it:

    - name: infinirl_tool_agent
      _target_: infinirl_verl.agent_loop.CondensingToolAgentLoop
      high: 8192          # the window, in tokens
      low: 4096           # what it is condensed down to; half of high
      reply: 1024         # the longest reply, for which there is always room
      keep_last: 1        # newest tool rounds that always stay
      mode: pair          # or result: of rounds that stay only the results
      cut_oversize: true  # the middle of results that do not fit goes

Each row has extra_fields["infinirl"]: inv_iter, segments, status (finished, truncated or
context_overflow), condense (the record of its prompt) and dropped (messages).
"""

import copy

from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.tool_agent_loop import AgentState, ToolAgentLoop

from .fifo import CondenseSettings, Overflow, ToolFIFO
from .pieces import body, pieces

UNBOUNDED = 1 << 40  # tokens


class CondensingToolAgentLoop(ToolAgentLoop):
    """One trajectory. verl makes a loop for each."""

    # No @register: verl imports this module at the first episode, and the decorator would
    # then take the place of the entry in agent.yaml.

    def __init__(self, *args, high, reply, low=None, keep_last=1, mode="pair", cut_oversize=True, **kwargs):
        super().__init__(*args, **kwargs)
        settings = CondenseSettings(high, reply, low, keep_last, mode, cut_oversize)
        settings.check(self.rollout_config)
        self.fifo = ToolFIFO(settings)
        self.response_length = UNBOUNDED  # high bounds a row; verl would drop a result that is to be cut
        self.closed, self.record = [], None
        self.results = {}  # log index of a result -> (messages before its group, the group, its place, schemas)
        self.status = "finished"

    async def run(self, sampling_params, **kwargs):
        last = await super().run({**sampling_params, "max_tokens": self.fifo.settings.reply}, **kwargs)
        last.extra_fields["infinirl"] = {"condense": self.record}
        rows = [row for row in (*self.closed, last) if any(row.response_mask)]
        for k, row in enumerate(rows):
            trim(row)
            row.extra_fields["infinirl"] |= {"inv_iter": len(rows) - 1 - k, "segments": len(rows), "status": self.status, "dropped": self.fifo.dropped}
        return rows

    def _cap_text_prompt_length(self, prompt_ids):
        if len(prompt_ids) > self.rollout_config.prompt_length:
            raise ValueError(f"first prompt of {len(prompt_ids)} tokens: verl would cut its start off at data.max_prompt_length {self.rollout_config.prompt_length}: "
                             "want more, or data.filter_overlong_prompts=True")
        return prompt_ids

    async def _handle_pending_state(self, agent_data, sampling_params):
        state = await super()._handle_pending_state(agent_data, sampling_params)
        refuse_media(agent_data)
        messages, prefix = await self.loop.run_in_executor(None, self._opening, agent_data)
        self.fifo.open(messages, prefix)
        if self.fifo.full():
            raise ValueError(f"first prompt of {len(agent_data.prompt_ids)} tokens: with a reply of {self.fifo.settings.reply} it exceeds high {self.fifo.settings.high}: "
                             "want a higher high, or a lower data.max_prompt_length with data.filter_overlong_prompts=True")
        self.record = self.fifo.whole()
        return state

    async def _handle_generating_state(self, agent_data, sampling_params, ignore_termination=False):
        if self.fifo.full():
            try:
                await self.loop.run_in_executor(None, self._condense, agent_data)
            except Overflow:
                self.status = "context_overflow"
                return AgentState.TERMINATED
        said = len(agent_data.messages)
        state = await super()._handle_generating_state(agent_data, sampling_params, ignore_termination)
        if state == AgentState.TERMINATED and len(agent_data.messages) == said and await self._calls(agent_data):
            self.status = "truncated"  # a bound on turns came before the answer to its calls
        return state

    async def _handle_processing_tools_state(self, agent_data):
        before = list(agent_data.messages)
        state = await super()._handle_processing_tools_state(agent_data)
        refuse_media(agent_data)
        await self.loop.run_in_executor(None, self._add_round, agent_data, before)
        return state

    async def _calls(self, agent_data):
        tools = getattr(agent_data, "_active_tools", self.tools)
        _, calls = await self.tool_parser.extract_tool_calls(agent_data.response_ids, [tool.tool_schema for tool in tools.values()])
        return calls

    # --- from verl's ids to messages

    def _opening(self, agent_data):
        """The ids of each message of the opening, and of what opens a reply."""
        builder, messages, schemas, ids = self.continuous_token_builder, agent_data.messages, self._schemas(agent_data), agent_data.prompt_ids
        prefix = builder.render_delta_token_id(messages, [], add_generation_prompt=True, tools=schemas)
        if not prefix or ids[-len(prefix) :] != prefix:
            raise ValueError("the chat template does not open replies behind the messages: such a window cannot be condensed")
        render = lambda k: builder._render_tokens(messages[:k], add_generation_prompt=False, tools=schemas)
        return pieces(len(messages), ids[: -len(prefix)], render), prefix

    def _add_round(self, agent_data, before):
        """Adds the reply and its results, which verl has appended to the prompt."""
        added, schemas, ids, prefix = agent_data.messages[len(before) :], self._schemas(agent_data), agent_data.prompt_ids, self.fifo.prefix
        whole = self._render(before, added, schemas)
        if ids[len(ids) - len(whole) :] != whole or whole[-len(prefix) :] != prefix:
            raise ValueError("the chat template writes results, or what opens a reply behind them, otherwise than after the opening: such a window cannot be condensed")
        call = ids[self.fifo.tokens : len(ids) - len(whole)]
        first = len(self.fifo.log) + 1
        self.fifo.add_round(call, pieces(len(added), whole[: -len(prefix)], lambda k: self._render(before, added[:k], schemas)))
        self.results |= {first + k: (before, added, k, schemas) for k in range(len(added))}

    def _render(self, before, added, schemas):
        return self.continuous_token_builder.tokenize_context_incremental_messages(before, before + added, tools=schemas)

    def _schemas(self, agent_data):
        return getattr(agent_data, "_active_tool_schemas", self.tool_schemas)

    # --- what the condenser asks for

    def body(self, i):
        before, added, k, schemas = self.results[i]
        emptied = [*added[:k], {**added[k], "content": ""}, *added[k + 1 :]]
        whole = self._render(before, emptied, schemas)[: -len(self.fifo.prefix)]
        return body(self.fifo.log[i].ids, pieces(len(added), whole, lambda n: self._render(before, emptied[:n], schemas))[k])

    def marker(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False)

    def _condense(self, agent_data):
        record = self.fifo.condense(self)
        self.closed.append(self._segment(agent_data))
        agent_data.prompt_ids, agent_data.response_mask, agent_data.response_logprobs = self.fifo.prompt(), [], []
        self.record = record

    def _segment(self, agent_data):
        """The row of the segment that ends here."""
        ids, n = agent_data.prompt_ids, len(agent_data.response_mask)
        return AgentLoopOutput(
            prompt_ids=ids[: len(ids) - n], response_ids=ids[len(ids) - n :], response_mask=agent_data.response_mask,
            response_logprobs=agent_data.response_logprobs or None, routed_experts=agent_data.routed_experts,
            multi_modal_data={}, mm_processor_kwargs=agent_data.mm_processor_kwargs, mm_processor_output=agent_data.mm_processor_output,
            num_turns=agent_data.user_turns + agent_data.assistant_turns + 1, metrics=copy.copy(agent_data.metrics),
            extra_fields={**agent_data.extra_fields, "turn_scores": [], "tool_rewards": [], "infinirl": {"condense": self.record}})


def trim(row):
    """A row ends with its last sampled token: what came then is in the next prompt, or gone."""
    n = max(t for t, m in enumerate(row.response_mask) if m) + 1
    row.response_ids, row.response_mask = row.response_ids[:n], row.response_mask[:n]
    if row.response_logprobs:
        row.response_logprobs = row.response_logprobs[:n]
    if row.routed_experts is not None:
        row.routed_experts = row.routed_experts[: len(row.prompt_ids) + n]


def refuse_media(agent_data):
    if agent_data.image_data or agent_data.video_data or agent_data.audio_data:
        raise ValueError("images, video and sound cannot be condensed: want messages and tools of text")
