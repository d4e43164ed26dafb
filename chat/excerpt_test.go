package chat_test

import (
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
)

func TestExcerpt(t *testing.T) {
	t.Parallel()
	for _, character := range []string{"a", "é", "世", "\xff"} {
		whole := strings.Repeat(character, 80)
		for _, text := range []string{"", character, whole} {
			if got := chat.Excerpt(text); got != text {
				t.Errorf("%q became %q", text, got)
			}
		}
		if got := chat.Excerpt(whole + "b"); got != whole+"…" {
			t.Errorf("81 characters became %q", got)
		}
	}
}
