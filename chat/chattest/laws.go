package chattest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/infinirl/infinirl/chat"
)

func seenStays(s Subject) error {
	return s.each(func(c conversation) error {
		start, err := s.Renderer.Start(c.opening, s.Tools)
		if err != nil {
			return err
		}
		// Room behind what was seen, as a slice has that grows.
		seen := append(make([]int32, 0, 4*len(start)+4096), start...)
		before := slices.Clone(seen)
		for n := 1; n <= len(c.rest); n++ {
			got, err := s.Renderer.Extend(seen, c.rest[:n])
			if err != nil {
				return err
			}
			if !slices.Equal(seen, before) {
				return fmt.Errorf("extending by %d messages changes the ids that were seen", n)
			}
			if len(got) < len(before) || !slices.Equal(got[:len(before)], before) {
				return fmt.Errorf("extending by %d messages does not begin with the ids that were seen", n)
			}
		}
		return nil
	})
}

func messagesAlone(s Subject) error {
	return s.each(func(c conversation) error {
		start, err := s.Renderer.Start(c.opening, s.Tools)
		if err != nil {
			return err
		}
		want, err := s.Renderer.Extend(nil, c.rest)
		if err != nil {
			return err
		}
		for _, seen := range [][]int32{{}, start, start[:len(start)/2], append(slices.Clone(start), want...)} {
			got, err := s.Renderer.Extend(seen, c.rest)
			if err != nil {
				return err
			}
			if len(got) < len(seen) || !slices.Equal(got[len(seen):], want) {
				return fmt.Errorf("behind %d ids seen the extension is another than behind none", len(seen))
			}
		}
		return nil
	})
}

// parts cuts messages before and behind every reply.
func parts(messages []chat.Message) [][]chat.Message {
	var out [][]chat.Message
	for at := 0; at < len(messages); {
		n := 1
		for messages[at].Role != chat.Assistant && at+n < len(messages) && messages[at+n].Role != chat.Assistant {
			n++
		}
		out = append(out, messages[at:at+n])
		at += n
	}
	return out
}

func concatenation(s Subject) error {
	r := s.Renderer
	return s.each(func(c conversation) error {
		grown, err := r.Start(c.opening, s.Tools)
		if err != nil {
			return err
		}
		start := len(grown)
		for _, part := range parts(c.rest) {
			if part[0].Role != chat.Assistant {
				if grown, err = r.Extend(grown, part); err != nil {
					return err
				}
				continue
			}
			ids, err := chat.Reply(r, part[0])
			if err != nil {
				return err
			}
			grown = slices.Concat(grown, r.GenerationPrefix(), ids, r.GenerationSuffix(ids))
		}
		once, err := r.Extend(nil, c.rest)
		if err != nil {
			return err
		}
		if !slices.Equal(grown[start:], once) {
			return errors.New("replies and extensions, one after the other, are not the extension by all of them")
		}
		first, err := chat.StartPieces(r, c.opening, s.Tools)
		if err != nil {
			return err
		}
		then, err := chat.ExtendPieces(r, c.rest)
		if err != nil {
			return err
		}
		if !slices.Equal(grown, slices.Concat(slices.Concat(first...), slices.Concat(then...))) {
			return errors.New("the pieces of prompt and rest do not join to the conversation as it grew")
		}
		return nil
	})
}

func piecesJoin(s Subject) error {
	return s.each(func(c conversation) error {
		for _, render := range []struct {
			name     string
			messages []chat.Message
			whole    func([]chat.Message) ([]int32, error)
			pieces   func([]chat.Message) ([][]int32, error)
		}{
			{"Start", c.opening,
				func(m []chat.Message) ([]int32, error) { return s.Renderer.Start(m, s.Tools) },
				func(m []chat.Message) ([][]int32, error) { return chat.StartPieces(s.Renderer, m, s.Tools) }},
			{"Extend", c.rest,
				func(m []chat.Message) ([]int32, error) { return s.Renderer.Extend(nil, m) },
				func(m []chat.Message) ([][]int32, error) { return chat.ExtendPieces(s.Renderer, m) }},
		} {
			whole, err := render.whole(render.messages)
			if err != nil {
				return err
			}
			pieces, err := render.pieces(render.messages)
			if err != nil {
				return err
			}
			if len(pieces) != len(render.messages) || !slices.Equal(slices.Concat(pieces...), whole) {
				return fmt.Errorf("%s: %d pieces of %d messages do not join to the whole", render.name, len(pieces), len(render.messages))
			}
		}
		return nil
	})
}

func roundTrip(s Subject) error {
	for _, m := range s.replies() {
		ids, err := chat.Reply(s.Renderer, m)
		if err != nil {
			return fmt.Errorf("%+v: %w", m, err)
		}
		for _, ids := range [][]int32{ids, s.cut(ids)} {
			if got := s.Renderer.Parse(ids); !same(got, m) {
				return fmt.Errorf("written %+v, parsed %+v", m, got)
			}
		}
	}
	return nil
}

// cut returns a reply without its stop sequence.
func (s Subject) cut(ids []int32) []int32 {
	for _, stop := range s.Renderer.Stop() {
		if n := len(ids) - len(stop); n >= 0 && slices.Equal(ids[n:], stop) {
			return ids[:n]
		}
	}
	return ids
}

func suffixCompletes(s Subject) error {
	r := s.Renderer
	for _, m := range s.replies() {
		whole, err := r.Extend(nil, []chat.Message{m})
		if err != nil {
			return err
		}
		ids, err := chat.Reply(r, m)
		if err != nil {
			return err
		}
		if got := slices.Concat(r.GenerationPrefix(), ids, r.GenerationSuffix(ids)); !slices.Equal(got, whole) {
			return fmt.Errorf("%+v: prefix, reply and suffix are not the message", m)
		}
		stop := ids[len(s.cut(ids)):]
		want := slices.Concat(stop, r.GenerationSuffix(ids))
		for n := range len(s.cut(ids)) + 1 {
			if got := r.GenerationSuffix(ids[:n]); !slices.Equal(got, want) {
				return fmt.Errorf("%+v cut after %d ids: suffix %v, want the end and what follows it %v", m, n, got, want)
			}
		}
	}
	return nil
}

func stopEnds(s Subject) error {
	stops := s.Renderer.Stop()
	if len(stops) == 0 || slices.ContainsFunc(stops, func(stop []int32) bool { return len(stop) == 0 }) {
		return fmt.Errorf("stop sequences %v, want at least one and none empty", stops)
	}
	for _, m := range s.replies() {
		ids, err := chat.Reply(s.Renderer, m)
		if err != nil {
			return err
		}
		body := s.cut(ids)
		if len(body) == len(ids) {
			return fmt.Errorf("%+v: no stop sequence ends the reply", m)
		}
		for n := range len(ids) {
			if len(s.cut(ids[:n])) < n {
				return fmt.Errorf("%+v: a stop sequence ends after %d of %d ids", m, n, len(ids))
			}
		}
	}
	return nil
}

func malformedKept(s Subject) error {
	for _, text := range s.Malformed {
		ids, err := chat.Reply(s.Renderer, chat.Message{Role: chat.Assistant, Content: text})
		if err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		m := s.Renderer.Parse(ids)
		if m.Content != text || len(m.MalformedCalls) == 0 || len(m.ToolCalls) > 0 {
			return fmt.Errorf("%q: parsed %+v, want the whole text as content, and a malformed call", text, m)
		}
		again, err := chat.Reply(s.Renderer, m)
		if err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		if !slices.Equal(again, ids) {
			return fmt.Errorf("%q: what was parsed is written as another reply", text)
		}
	}
	return nil
}

func toolsWritten(s Subject) error {
	if !s.ToolsInPrompt {
		return nil
	}
	return s.each(func(c conversation) error {
		seen := make(map[string]string)
		for _, variant := range []struct {
			name  string
			tools []chat.Tool
		}{
			{"no tools", nil}, {"all", s.Tools}, {"another description", described(s.Tools)}, {"another name", renamed(s.Tools)},
		} {
			ids, err := s.Renderer.Start(c.opening, variant.tools)
			if err != nil {
				continue // an error is no silent loss
			}
			key := fmt.Sprint(ids)
			if other, ok := seen[key]; ok {
				return fmt.Errorf("the prompt with tools (%s) is that with other tools (%s)", variant.name, other)
			}
			seen[key] = variant.name
		}
		return nil
	})
}

func described(tools []chat.Tool) []chat.Tool {
	out := slices.Clone(tools)
	out[0].Description += " Quickly."
	return out
}

func renamed(tools []chat.Tool) []chat.Tool {
	out := slices.Clone(tools)
	out[0].Name += "_all"
	return out
}

func inputsStay(s Subject) error {
	return s.each(func(c conversation) error {
		opening, rest := copied(c.opening), copied(c.rest)
		tools := slices.Clone(s.Tools)
		for i := range tools {
			tools[i].Parameters = slices.Clone(tools[i].Parameters)
		}
		if _, err := s.Renderer.Start(c.opening, s.Tools); err != nil {
			return err
		}
		ids, err := s.Renderer.Extend(nil, c.rest)
		if err != nil {
			return err
		}
		before := slices.Clone(ids)
		s.Renderer.Parse(ids)
		s.Renderer.GenerationSuffix(ids)
		switch {
		case !reflect.DeepEqual(opening, c.opening) || !reflect.DeepEqual(rest, c.rest):
			return errors.New("the messages are changed")
		case !reflect.DeepEqual(tools, s.Tools):
			return errors.New("the tools are changed")
		case !slices.Equal(before, ids):
			return errors.New("the ids are changed")
		}
		// What is returned is the caller's.
		for i := range ids {
			ids[i] = -1
		}
		again, err := s.Renderer.Extend(nil, c.rest)
		if err != nil {
			return err
		}
		if !slices.Equal(again, before) {
			return errors.New("writing into the ids that were returned changes those returned later")
		}
		return nil
	})
}

func concurrent(s Subject) error {
	var all []conversation
	if err := s.each(func(c conversation) error { all = append(all, c); return nil }); err != nil {
		return err
	}
	rendered := func(c conversation) (string, error) {
		start, err := s.Renderer.Start(c.opening, s.Tools)
		if err != nil {
			return "", err
		}
		ids, err := s.Renderer.Extend(start, c.rest)
		if err != nil {
			return "", err
		}
		reply, err := chat.Reply(s.Renderer, c.rest[0])
		if err != nil {
			return "", err
		}
		return fmt.Sprint(ids, s.Renderer.Parse(reply), s.Renderer.Stop(), s.Renderer.GenerationSuffix(ids)), nil
	}
	want := make([]string, len(all))
	for i, c := range all {
		var err error
		if want[i], err = rendered(c); err != nil {
			return err
		}
	}
	failed := make([]error, 4)
	var wait sync.WaitGroup
	for g := range failed {
		wait.Go(func() {
			for i := range all {
				n := (i + g*5) % len(all)
				if got, err := rendered(all[n]); err != nil || got != want[n] {
					failed[g] = errors.Join(fmt.Errorf("conversation %d: beside others it is rendered or parsed otherwise", n), err)
					return
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}
