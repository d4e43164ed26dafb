package chat

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// CanonicalJSON rewrites valid JSON as Python's json.dumps(value,
// ensure_ascii=False) writes it: ", " and ": " between items, no other white space,
// no escape but those that JSON demands. The order of keys and the spelling of
// numbers stay. It gives equal text for values that differ in layout alone.
func CanonicalJSON(data []byte) []byte { return layOut(data, "") }

// layOut is CanonicalJSON, in lines if indent is not empty: items and closing brackets
// then begin one.
func layOut(data []byte, indent string) []byte {
	out := make([]byte, 0, len(data)+len(data)/8)
	depth, opened := 0, false // opened: a bracket was opened, and nothing stands in it yet
	for i := 0; i < len(data); i++ {
		c := data[i]
		if c == ' ' || c == '\n' || c == '\t' || c == '\r' {
			continue
		}
		closing := c == '}' || c == ']'
		if closing {
			depth--
		}
		if indent != "" && opened != closing {
			out = appendLine(out, indent, depth)
		}
		opened = false
		switch c {
		case '{', '[':
			out = append(out, c)
			depth++
			opened = true
		case ',':
			out = append(out, c)
			if indent != "" {
				out = appendLine(out, indent, depth)
			} else {
				out = append(out, ' ')
			}
		case ':':
			out = append(out, c, ' ')
		case '"':
			end := i + 1
			for ; end < len(data) && data[end] != '"'; end++ {
				if data[end] == '\\' {
					end++
				}
			}
			end = min(end+1, len(data))
			out = appendString(out, data[i:end])
			i = end - 1
		default:
			out = append(out, c)
		}
	}
	return out
}

func appendLine(out []byte, indent string, depth int) []byte {
	out = append(out, '\n')
	for range depth {
		out = append(out, indent...)
	}
	return out
}

// appendString appends a JSON string with the fewest escapes.
func appendString(out, quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return append(out, quoted...)
	}
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		return append(out, quoted...) // no JSON: the caller's mistake stays visible
	}
	const hex = "0123456789abcdef"
	out = append(out, '"')
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, '\\', 'n')
		case c == '\r':
			out = append(out, '\\', 'r')
		case c == '\t':
			out = append(out, '\\', 't')
		case c == '\b':
			out = append(out, '\\', 'b')
		case c == '\f':
			out = append(out, '\\', 'f')
		case c < ' ':
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
