package bpe

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/infinirl/infinirl/bounded"
)

// Patterns that backtrack for ever end in an error, soon and in little memory, and
// never in a wrong tokenization.
func TestPatternsThatBacktrack(t *testing.T) {
	t.Parallel()
	for i, c := range []struct{ expression, text string }{
		{`(a+)+b`, strings.Repeat("a", 100_000)},
		{`(?:\p{L}|\p{L}\p{L})*!`, strings.Repeat("é", 60)},
		// No match takes a second, and all of them take hours.
		{`(?=(?:a|aa)*b|.)a`, strings.Repeat(strings.Repeat("a", 24)+" ", 10_000)},
	} {
		tokenizer := load(t, func(file object) {
			split := object{"type": "Split", "pattern": object{"Regex": c.expression}, "behavior": "Isolated", "invert": false}
			file["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{split, object{"type": "ByteLevel", "use_regex": false}}}
		})
		start := time.Now()
		both := map[string]func(string) ([]int32, error){"Encode": tokenizer.Encode}
		if i == 0 {
			both["EncodeRendered"] = tokenizer.EncodeRendered
		}
		for name, encode := range both {
			ids, err := encode(c.text)
			if err == nil || ids != nil || !strings.Contains(err.Error(), "takes too long") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %s: %d ids, error %v", c.expression, name, len(ids), err)
			}
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s: the errors took %v", c.expression, took)
		}
		// A text that it does match is none the worse for it.
		if _, err := tokenizer.Encode("ab ab"); err != nil {
			t.Errorf("%s: %v", c.expression, err)
		}
	}
}

func TestLongPatternsAreRefused(t *testing.T) {
	t.Parallel()
	for expression, ok := range map[string]bool{
		strings.Repeat("(", 1000) + "a" + strings.Repeat(")*", 1000): true,
		strings.Repeat("a", maxPattern+1):                            false,
		"(":                                                          false,
	} {
		if _, err := compileGeneral(expression); (err == nil) != ok {
			t.Errorf("%.20q of %d bytes: error %v", expression, len(expression), err)
		}
	}
}

// endless is a stream that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestAFileWithoutEnd(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := Read(endless{}); !errors.Is(err, bounded.ErrTooLarge) {
		t.Errorf("error %v", err)
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 8*maxFile {
		t.Errorf("%d bytes of memory were taken", taken)
	}
}
