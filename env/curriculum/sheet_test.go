package curriculum

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env/toolcall"
	"github.com/infinirl/infinirl/token"
)

func TestMaskCoversWhatIsToBeLearnt(t *testing.T) {
	t.Parallel()
	vocabulary, err := token.NewVocabulary(append(chat.WordControls(), "walk", "1", "2", "go"))
	if err != nil {
		t.Fatal(err)
	}
	renderer, err := chat.NewWords(vocabulary, []chat.Tool{{
		Name:       "walk",
		Parameters: json.RawMessage(`{"properties":{"step":{"type":"integer"}}}`),
	}})
	if err != nil {
		t.Fatal(err)
	}
	walk := func(step int) chat.Message {
		return toolcall.New("walk", struct {
			Step int `json:"step"`
		}{step})
	}
	s := NewSheet(renderer)
	s.Show(chat.Message{Role: chat.User, Content: "go"})
	s.Learn(walk(2))
	s.LearnEnd(walk(1), 2)
	var got string
	for i, id := range s.IDs {
		mark := ""
		if s.Mask[i] {
			mark = "*"
		}
		got += fmt.Sprint(" ", vocabulary.Word(id), mark)
	}
	const want = " <|user|> go <|end|> <|assistant|> walk* 2* <|end|>* <|assistant|> walk 1* <|end|>*"
	if got != want {
		t.Errorf("got %s\nwant%s", got, want)
	}
}
