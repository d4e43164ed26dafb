package bpe

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is an entry of added_tokens. Field by field it is what Hugging
// Face's AddedToken says.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // no match next to a word character
	LStrip     bool   `json:"lstrip"`      // takes the white space before it
	RStrip     bool   `json:"rstrip"`      // takes the white space after it
	Normalized bool   `json:"normalized"`  // matched in the normalised text
	Special    bool   `json:"special"`     // left out by skip_special_tokens
}

// control reports whether the token delimits parts of a chat format. Others are
// only words, such as the runs of spaces of some vocabularies.
func (a *addedToken) control() bool { return a.Special || !a.Normalized }

// matcher finds added tokens in a text: the leftmost, and of those that start at
// the same byte the longest. The zero matcher, like a nil one, finds none.
type matcher struct {
	tokens []addedToken
	nodes  []node // a trie of the spellings, the root first
	only   string // the one byte that all spellings start with, if they share it
}

type node struct {
	edges []edge
	token int // index of the token that ends here, -1 if none does
}

type edge struct {
	label byte
	to    int
}

// insert adds a token under its spelling in the text, normalised if need be.
func (m *matcher) insert(token addedToken, spelling string) {
	if len(m.nodes) == 0 {
		m.nodes = []node{{token: -1}}
		m.only = spelling[:1]
	}
	if m.only != spelling[:1] {
		m.only = ""
	}
	at := 0
	for i := range len(spelling) {
		to := m.child(at, spelling[i])
		if to < 0 {
			to = len(m.nodes)
			m.nodes = append(m.nodes, node{token: -1})
			m.nodes[at].edges = append(m.nodes[at].edges, edge{spelling[i], to})
		}
		at = to
	}
	m.nodes[at].token = len(m.tokens)
	m.tokens = append(m.tokens, token)
}

func (m *matcher) child(at int, label byte) int {
	for _, e := range m.nodes[at].edges {
		if e.label == label {
			return e.to
		}
	}
	return -1
}

// find returns the next match in text[from:].
func (m *matcher) find(text string, from int) (start, end int, token *addedToken) {
	for start := from; start < len(text); start++ {
		if m.only != "" {
			i := strings.IndexByte(text[start:], m.only[0])
			if i < 0 {
				break
			}
			start += i
		}
		for at, i := 0, start; i < len(text); {
			at = m.child(at, text[i])
			if at < 0 {
				break
			}
			i++
			if found := m.nodes[at].token; found >= 0 {
				end, token = i, &m.tokens[found]
			}
		}
		if token != nil {
			return start, end, token
		}
	}
	return len(text), len(text), nil
}

// cut calls yield for each added token in text with its id, and for the text
// between them with id -1, in order.
func (m *matcher) cut(text string, yield func(part string, id int32)) {
	done := 0 // text[:done] has been yielded
	if m != nil && len(m.tokens) > 0 {
		for from := 0; ; {
			start, end, token := m.find(text, from)
			if token == nil {
				break
			}
			from = end
			if token.SingleWord && (endsInWord(text[:start]) || startsInWord(text[end:])) {
				continue
			}
			if token.LStrip {
				start = max(done, len(strings.TrimRightFunc(text[:start], unicode.IsSpace)))
			}
			if token.RStrip {
				end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
			}
			if done < start {
				yield(text[done:start], -1)
			}
			// Strip may have left nothing of a token that is white space itself,
			// or, as the reference has it, not have reached it.
			if start < end {
				yield(text[start:end], token.ID)
			}
			done = end
		}
	}
	if done < len(text) {
		yield(text[done:], -1)
	}
}

func endsInWord(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(text)
	return text != "" && isWord(r)
}

func startsInWord(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return text != "" && isWord(r)
}
