package chat

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestCanonicalJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{`{}`, `{}`},
		{" {\n\t\"b\" :1,\r\"a\":[ 1.50 ,2e3,null, true ] }", `{"b": 1, "a": [1.50, 2e3, null, true]}`},
		{`"\u00e9\u4e2d\ud83d\ude00"`, `"é中😀"`},
		{`"\/ \" \\ \n\r\t\b\f \u0001 \u001F \u007f <&>"`, `"/ \" \\ \n\r\t\b\f \u0001 \u001f ` + "\x7f" + ` <&>"`},
		{`{"a, b": "c: [d]  e"}`, `{"a, b": "c: [d]  e"}`},
		{`{"\u0061":{"x":""}}`, `{"a": {"x": ""}}`},
		{`-0.0`, `-0.0`},
	} {
		if got := string(CanonicalJSON([]byte(c.text))); got != c.want {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
	}
}

// FuzzCanonicalJSON checks that the canonical text means the same, and is its own
// canonical text.
func FuzzCanonicalJSON(f *testing.F) {
	f.Add(`{"a": [1, "\u00e9\n", {"b": null}], "c": 1.50}`)
	f.Add("\"\\ud800 \xff\"")
	f.Fuzz(func(t *testing.T, text string) {
		var want, got any
		if json.Unmarshal([]byte(text), &want) != nil {
			CanonicalJSON([]byte(text)) // must not panic
			return
		}
		canonical := CanonicalJSON([]byte(text))
		if err := json.Unmarshal(canonical, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q became %q: %v", text, canonical, err)
		}
		if again := CanonicalJSON(canonical); string(again) != string(canonical) {
			t.Errorf("%q became %q, then %q", text, canonical, again)
		}
	})
}
