package condense_test

import (
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/trajectory"
)

// ready is a renderer that hands out ids encoded beforehand: what is measured is
// condensing, not tokenising.
type ready struct {
	*chat.ChatML
	ids []int32
}

func (r ready) Extend(seen []int32, messages []chat.Message) ([]int32, error) {
	for range messages {
		seen = append(seen, r.ids...)
	}
	return seen, nil
}

// BenchmarkCondense plays 10,000 messages of 500 tokens, 5,000 tool rounds, through
// a window of 64k tokens, and derives every prompt again. It touches no token but
// to copy the prompts of the segments and the windows they come from: each of the
// 5,000,000 log tokens into the window once, and some 150 prompts of 32k tokens
// twice; at 4 bytes that is 60 MB, 6 ms at 10 GB/s.
func BenchmarkCondense(b *testing.B) {
	const messages, tokens = 10_000, 500
	renderer := ready{newRenderer(b, triples{}), make([]int32, tokens)}
	prefix := len(renderer.GenerationPrefix())
	copy(renderer.ids, renderer.GenerationPrefix())
	renderer.ids[tokens-1] = '\n' | 1<<24
	renderer.ids[tokens-2] = 1 // <|im_end|>
	call := chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: "find", Arguments: "{}"}}}
	result := chat.Message{Role: chat.ToolRole, Content: "found"}
	sampled := renderer.ids[prefix : tokens-1]
	for _, rule := range condense.Rules()[1:] {
		if rule == condense.ToolClear { // its window ends full
			continue
		}
		b.Run(rule, func(b *testing.B) {
			condenser, err := condense.New(condense.DefaultFor(rule, 65536))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var segments int
			for b.Loop() {
				r := trajectory.NewRecorder("t", "g", renderer, condenser)
				if err := r.Observe(chat.Message{Role: chat.System}, chat.Message{Role: chat.User}); err != nil {
					b.Fatal(err)
				}
				for range messages / 2 {
					for again := true; again; {
						if _, err := r.Prompt(len(sampled)); err != nil {
							b.Fatal(err)
						}
						if again = r.Asked() != nil; again {
							if _, err := r.Reply(renderer.Stop()[0], nil, trajectory.Versions{}); err != nil {
								b.Fatal(err)
							}
						}
					}
					if err := r.ReplyMessage(call, sampled); err != nil {
						b.Fatal(err)
					}
					if err := r.Observe(result); err != nil {
						b.Fatal(err)
					}
				}
				t := r.Close(trajectory.Finished)
				segments = len(t.Segments)
				prompt := make([]int32, 0, 65536)
				for _, s := range t.Segments {
					if prompt, err = s.Record.Prompt(prompt[:0], t); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(segments), "segments")
			b.ReportMetric(float64(messages*tokens*b.N)/b.Elapsed().Seconds()/1e6, "Mtok/s")
		})
	}
}
