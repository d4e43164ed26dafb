// Command compare checks the renderer of Hugging Face models against prompts that
// reference.py made with transformers. Started by run.sh.
//
// usage: compare load TOKENIZER_JSON
//
//	compare check TOKENIZER_JSON TEMPLATE CASES.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/huggingface"
	"github.com/infinirl/infinirl/chat/template"
	"github.com/infinirl/infinirl/token/bpe"
)

func main() {
	err := errors.New("usage: compare check TOKENIZER_JSON TEMPLATE CASES.jsonl")
	if len(os.Args) == 5 && os.Args[1] == "check" {
		err = check(os.Args[2], os.Args[3], os.Args[4])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// testCase is a conversation with the prompts that transformers makes of it: one
// before every reply, and one at the end if that is no reply.
type testCase struct {
	Family     string
	CallFormat string `json:"call_format"`
	Variables  map[string]any
	Messages   []chat.Message
	Tools      []chat.Tool
	Prompts    []prompt
	// Extendable: every rendering is the start of the next; or every prompt is, and
	// holds the reasoning of all replies.
	Extendable bool
}

type prompt struct {
	At  int
	IDs []int32
}

// counts are conversations, but for prompts.
type counts struct {
	all, equal, refused, beyond int
	prompts, whole              int
	wrong                       int
	reasons                     map[string]int
}

func check(tokenizerPath, templatePath, casesPath string) error {
	tokenizer, err := load(tokenizerPath)
	if err != nil {
		return err
	}
	source, err := os.ReadFile(templatePath)
	if err != nil {
		return err
	}
	compiled, err := template.Compile(string(source))
	if err != nil {
		return err
	}
	file, err := os.Open(casesPath)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<26)
	n := counts{reasons: make(map[string]int)}
	var r *huggingface.Renderer
	family := ""
	for lines.Scan() {
		var c testCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		if r == nil {
			family = c.Family
			if r, err = huggingface.New(compiled, tokenizer, huggingface.Options{Variables: c.Variables, CallFormat: c.CallFormat}); err != nil {
				return err
			}
		}
		if err := n.add(r, c); err != nil {
			if n.wrong++; n.wrong <= 3 {
				fmt.Printf("conversation %d: %v\n", n.all-1, err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	fmt.Printf("%-18s %4d conversations: %4d equal (%d not expected to be), %4d cannot be extended, %d wrong; %5d of %5d prompts rendered in one go equal\n",
		family, n.all, n.equal, n.beyond, n.refused, n.wrong, n.whole, n.prompts)
	for _, reason := range slices.Sorted(func(yield func(string) bool) {
		for reason := range n.reasons {
			if !yield(reason) {
				return
			}
		}
	}) {
		fmt.Printf("%24d %s\n", n.reasons[reason], reason)
	}
	if n.wrong > 0 || n.whole != n.prompts {
		return fmt.Errorf("%s: %d conversations are wrong, %d prompts rendered in one go differ", family, n.wrong, n.prompts-n.whole)
	}
	return nil
}

// add compares one conversation.
func (n *counts) add(r *huggingface.Renderer, c testCase) error {
	n.all++
	for _, p := range c.Prompts {
		n.prompts++
		ids, err := r.RenderWhole(c.Messages[:p.At], c.Tools)
		if err != nil {
			return err
		}
		if slices.Equal(ids, p.IDs) {
			n.whole++
		} else if n.prompts-n.whole <= 3 {
			fmt.Printf("conversation %d, the prompt before message %d: %s\n", n.all-1, p.At, difference(r, ids, p.IDs))
		}
	}
	differs, err := grow(r, c)
	if err != nil {
		return err
	}
	refusal := r.CheckExtension(c.Messages, c.Tools)
	switch {
	case refusal == nil && differs >= 0:
		return fmt.Errorf("the prompt before message %d differs, and CheckExtension does not say so", differs)
	case refusal == nil:
		n.equal++
		if !c.Extendable {
			n.beyond++
		}
	case differs < 0:
		return fmt.Errorf("every prompt is equal: %w", refusal)
	case c.Extendable:
		return fmt.Errorf("every rendering of transformers is the start of the next: %w", refusal)
	default:
		n.refused++
		n.reasons[reason(refusal)]++
	}
	return nil
}

// grow makes the prompts as a rollout does. It returns where the first that differs
// stands, or -1.
func grow(r *huggingface.Renderer, c testCase) (int, error) {
	opening := c.Prompts[0].At
	ids, err := r.Start(c.Messages[:opening], c.Tools)
	if err != nil {
		return 0, err
	}
	at := opening
	for _, p := range c.Prompts {
		for at < p.At {
			end := at + 1
			if c.Messages[at].Role == chat.Assistant {
				reply, err := chat.Reply(r, c.Messages[at])
				if err != nil {
					return 0, err
				}
				ids = slices.Concat(ids, r.GenerationPrefix(), reply, r.GenerationSuffix(reply))
				at = end
				continue
			}
			for end < p.At && c.Messages[end].Role != chat.Assistant {
				end++
			}
			if ids, err = r.Extend(ids, c.Messages[at:end]); err != nil {
				return 0, err
			}
			at = end
		}
		if !slices.Equal(slices.Concat(ids, r.GenerationPrefix()), p.IDs) {
			return p.At, nil
		}
	}
	return -1, nil
}

// difference shows where ids part.
func difference(r *huggingface.Renderer, got, want []int32) string {
	n := 0
	for n < min(len(got), len(want)) && got[n] == want[n] {
		n++
	}
	quote := func(ids []int32) string {
		ids = ids[max(0, min(n, len(ids))-5):]
		return fmt.Sprintf("%v %q", ids[:min(8, len(ids))], chat.Excerpt(r.Parse(ids).Content))
	}
	return fmt.Sprintf("token %d of %d and %d\n    here         %s\n    transformers %s", n, len(got), len(want), quote(got), quote(want))
}

// reason is the part of a refusal that others share.
func reason(err error) string {
	text := err.Error()
	if _, after, ok := strings.Cut(text, "in the prompt before message "); ok {
		if _, after, ok = strings.Cut(after, ": "); ok {
			text, _, _ = strings.Cut(after, ": as it grows")
		}
	}
	return text
}

func load(path string) (*bpe.Tokenizer, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	t, err := bpe.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}
