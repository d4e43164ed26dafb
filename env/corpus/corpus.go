// Package corpus is search over the user's documents: an index, the tools search and open,
// and the exact match and F1 of answers to questions about them.
package corpus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/standard"
	"github.com/blevesearch/bleve/v2/analysis/lang/cjk"
	"github.com/blevesearch/bleve/v2/analysis/lang/en"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/mapping"
	index "github.com/blevesearch/bleve_index_api"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env/toolcall"
	"github.com/infinirl/infinirl/env/tools"
)

const (
	// maxHits is the most results of a search, usualHits what it has unless told.
	maxHits, usualHits = 20, 5
	// maxQuery is the longest query, in characters.
	maxQuery = 1000
	// excerpt is how much of a page a result shows, in characters.
	excerpt = 200
	// batch is how many pages are indexed at once.
	batch = 2000
)

// Config says what is searched.
type Config struct {
	// Path is a JSON Lines file, {"id": …, "title": …, "text": …} a line, or a folder of text.
	Path string
	// Index is a folder that the index is kept in, made if there is none; in memory if
	// empty. An index of other documents or another configuration is an error.
	Index string
	// Analyzer is how text becomes words: en (English, stemmed), standard (any language
	// that writes spaces), cjk.
	Analyzer string
	// Page is the most characters of a page, which is what is found and opened.
	Page int
}

// Default returns English documents in memory, pages of 2,000 characters.
func Default(path string) Config { return Config{Path: path, Analyzer: en.AnalyzerName, Page: 2000} }

// Validate says what is wrong.
func (c Config) Validate() error {
	switch {
	case c.Path == "":
		return errors.New("corpus: path: want a JSON Lines file or a folder of text")
	case c.Analyzer != en.AnalyzerName && c.Analyzer != standard.Name && c.Analyzer != cjk.AnalyzerName:
		return fmt.Errorf("corpus: analyzer: %q: want %s, %s or %s", c.Analyzer, en.AnalyzerName, standard.Name, cjk.AnalyzerName)
	case c.Page < 100:
		return fmt.Errorf("corpus: page: %d characters: want at least 100", c.Page)
	}
	return nil
}

// Corpus is an index of documents. It is safe for concurrent use.
type Corpus struct {
	index bleve.Index
	close func() error
}

func newCorpus(index bleve.Index) *Corpus {
	return &Corpus{index, sync.OnceValue(index.Close)} // bleve panics at a second one
}

// page is what is indexed and found.
type page struct {
	Document string  `json:"document"`
	Title    string  `json:"title"`
	Text     string  `json:"text"`
	Number   float64 `json:"number"` // from 1
	Of       float64 `json:"of"`
}

func (p page) name() string { return pageName(p.Document, int(p.Number)) }

func pageName(document string, number int) string { return fmt.Sprintf("%s\x00%d", document, number) }

// Open reads and indexes the documents, or opens an index of them that was made before.
func Open(ctx context.Context, cfg Config) (*Corpus, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Index == "" {
		built, err := bleve.NewUsing("", schema(cfg), scorch.Name, scorch.Name, nil)
		if err != nil {
			return nil, fmt.Errorf("corpus: index: %w", err)
		}
		if err := fill(ctx, built, cfg); err != nil {
			return nil, errors.Join(err, built.Close())
		}
		return newCorpus(built), nil
	}
	mark, err := fingerprint(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(cfg.Index); errors.Is(err, os.ErrNotExist) {
		if err := build(ctx, cfg, mark); err != nil {
			return nil, err
		}
	}
	found, err := bleve.OpenUsing(cfg.Index, map[string]any{"read_only": true})
	if err != nil {
		return nil, fmt.Errorf("corpus: index %s: %w: want an index, or a new folder for one", cfg.Index, err)
	}
	if of, err := found.GetInternal(markKey); err != nil || string(of) != mark {
		return nil, errors.Join(fmt.Errorf("corpus: index %s: it is of other documents, or not of this version: remove it or name another folder", cfg.Index), err, found.Close())
	}
	return newCorpus(found), nil
}

// markKey is where an index keeps the fingerprint of what it was made of.
var markKey = []byte("infinirl")

// fingerprint is of the documents and of all that an index depends on.
func fingerprint(ctx context.Context, cfg Config) (string, error) {
	sum := sha256.New()
	encoder := json.NewEncoder(sum)
	if err := encoder.Encode([]any{"pages, version 1", cfg.Analyzer, cfg.Page}); err != nil {
		return "", err
	}
	err := documents(cfg.Path, func(d document) error {
		return errors.Join(ctx.Err(), encoder.Encode([]string{d.id, d.title, d.text}))
	})
	if err != nil {
		return "", fmt.Errorf("corpus: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// build makes the index under another name, so that what is found is whole.
func build(ctx context.Context, cfg Config, mark string) (err error) {
	if err := os.MkdirAll(filepath.Dir(cfg.Index), 0o777); err != nil {
		return fmt.Errorf("corpus: index: %w", err)
	}
	scratch, err := os.MkdirTemp(filepath.Dir(cfg.Index), filepath.Base(cfg.Index)+".*.tmp")
	if err != nil {
		return fmt.Errorf("corpus: index: %w", err)
	}
	defer os.RemoveAll(scratch)
	made := filepath.Join(scratch, "index")
	built, err := bleve.NewUsing(made, schema(cfg), scorch.Name, scorch.Name, nil)
	if err != nil {
		return fmt.Errorf("corpus: index: %w", err)
	}
	if err = fill(ctx, built, cfg); err == nil {
		err = built.SetInternal(markKey, []byte(mark))
	}
	if err = errors.Join(err, built.Close()); err != nil {
		return err
	}
	if err := os.Rename(made, cfg.Index); err != nil {
		return fmt.Errorf("corpus: index: %w", err)
	}
	return nil
}

func schema(cfg Config) *mapping.IndexMappingImpl {
	m := bleve.NewIndexMapping()
	m.ScoringModel = index.BM25Scoring
	words, kept := bleve.NewTextFieldMapping(), bleve.NewKeywordFieldMapping()
	words.Analyzer, words.IncludeInAll, words.DocValues, words.IncludeTermVectors = cfg.Analyzer, false, false, false
	kept.Index, kept.IncludeInAll, kept.DocValues = false, false, false
	number := bleve.NewNumericFieldMapping()
	number.Index, number.IncludeInAll, number.DocValues = false, false, false
	of := bleve.NewDocumentStaticMapping()
	of.AddFieldMappingsAt("document", kept)
	of.AddFieldMappingsAt("title", words)
	of.AddFieldMappingsAt("text", words)
	of.AddFieldMappingsAt("number", number)
	of.AddFieldMappingsAt("of", number)
	m.DefaultMapping = of
	return m
}

// fill indexes all documents.
func fill(ctx context.Context, into bleve.Index, cfg Config) error {
	next := into.NewBatch()
	flush := func() error {
		err := into.Batch(next)
		next.Reset()
		return err
	}
	err := documents(cfg.Path, func(d document) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		all := pages(d.text, cfg.Page)
		for i, text := range all {
			p := page{d.id, d.title, text, float64(i + 1), float64(len(all))}
			if err := next.Index(p.name(), p); err != nil {
				return err
			}
			if next.Size() >= batch {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return fmt.Errorf("corpus: %w", err)
	}
	return nil
}

// Close frees the index.
func (c *Corpus) Close() error { return c.close() }

// Tools returns search and open.
func (c *Corpus) Tools() tools.Fixed {
	return tools.Fixed{
		{Tool: chat.Tool{
			Name: "search", Description: "Searches the documents. Returns the pages that fit best, with their ids.",
			Parameters: json.RawMessage(fmt.Sprintf(`{"type": "object", "properties": {"query": {"type": "string"}, "n": {"type": "integer", "description": "How many results, 1 to %d; %d if absent."}}, "required": ["query"]}`, maxHits, usualHits)),
		}, Call: c.search},
		{Tool: chat.Tool{
			Name: "open", Description: "Shows one page of a document.",
			Parameters: json.RawMessage(`{"type": "object", "properties": {"id": {"type": "string"}, "page": {"type": "integer", "description": "From 1; 1 if absent."}}, "required": ["id"]}`),
		}, Call: c.open},
	}
}

type searchArguments struct {
	Query string `json:"query"`
	N     *int   `json:"n"`
}

func (c *Corpus) search(ctx context.Context, call chat.ToolCall) (string, error) {
	var a searchArguments
	if err := toolcall.Arguments(call, &a); err != nil {
		return "error: " + err.Error(), nil
	}
	n := usualHits
	if a.N != nil {
		n = *a.N
	}
	switch {
	case strings.TrimSpace(a.Query) == "" || utf8.RuneCountInString(a.Query) > maxQuery:
		return fmt.Sprintf("error: query: want 1 to %d characters", maxQuery), nil
	case n < 1 || n > maxHits:
		return fmt.Sprintf("error: n: %d: want 1 to %d", n, maxHits), nil
	}
	found, err := c.find(ctx, a.Query, n)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "no results", nil
	}
	var out strings.Builder
	for i, p := range found {
		if i > 0 {
			out.WriteString("\n\n")
		}
		fmt.Fprintf(&out, "%d. %s\n%s", i+1, p.heading(), start(p.Text))
	}
	return out.String(), nil
}

// find returns the n pages that fit a query best; pages that fit as well are in the order
// of their names.
func (c *Corpus) find(ctx context.Context, text string, n int) ([]page, error) {
	inTitle, inText := bleve.NewMatchQuery(text), bleve.NewMatchQuery(text)
	inTitle.SetField("title")
	inText.SetField("text")
	request := bleve.NewSearchRequestOptions(bleve.NewDisjunctionQuery(inTitle, inText), n, 0, false)
	request.Fields = []string{"*"}
	request.SortBy([]string{"-_score", "_id"})
	found, err := c.index.SearchInContext(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	var all []page
	for _, hit := range found.Hits {
		p, err := read(hit.ID, hit.Fields)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// read returns the page of a hit.
func read(name string, fields map[string]any) (p page, err error) {
	p.Document, _ = fields["document"].(string)
	p.Title, _ = fields["title"].(string)
	p.Text, _ = fields["text"].(string)
	p.Number, _ = fields["number"].(float64)
	p.Of, _ = fields["of"].(float64)
	if p.name() != name || p.Text == "" {
		return p, fmt.Errorf("index: page %q: it is damaged: remove the index", name)
	}
	return p, nil
}

// heading names a page and its place.
func (p page) heading() string {
	text := "id: " + p.Document
	if p.Title != "" {
		text += ", title: " + p.Title
	}
	if p.Of > 1 {
		text += fmt.Sprintf(", page %g of %g", p.Number, p.Of)
	}
	return text
}

// start is the start of a text, in one line.
func start(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	n := 0
	for i := range text {
		if n++; n > excerpt {
			return strings.TrimSpace(text[:i]) + " …"
		}
	}
	return text
}

type openArguments struct {
	ID   json.RawMessage `json:"id"` // models write a number where it looks like one
	Page *int            `json:"page"`
}

func (c *Corpus) open(ctx context.Context, call chat.ToolCall) (string, error) {
	var a openArguments
	if err := toolcall.Arguments(call, &a); err != nil {
		return "error: " + err.Error(), nil
	}
	var id string
	if json.Unmarshal(a.ID, &id) != nil {
		id = string(a.ID)
	}
	number := 1
	if a.Page != nil {
		number = *a.Page
	}
	p, err := c.page(ctx, id, number)
	if err != nil {
		return "", err
	}
	if p != nil {
		return p.heading() + "\n" + p.Text, nil
	}
	if p, err = c.page(ctx, id, 1); err != nil {
		return "", err
	}
	if p == nil {
		return fmt.Sprintf("error: id: no document %q", chat.Excerpt(id)), nil
	}
	return fmt.Sprintf("error: page: %d: the document has 1 to %g", number, p.Of), nil
}

// page returns a page, nil if there is none.
func (c *Corpus) page(ctx context.Context, id string, number int) (*page, error) {
	request := bleve.NewSearchRequestOptions(bleve.NewDocIDQuery([]string{pageName(id, number)}), 1, 0, false)
	request.Fields = []string{"*"}
	found, err := c.index.SearchInContext(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	if len(found.Hits) == 0 {
		return nil, nil
	}
	p, err := read(found.Hits[0].ID, found.Hits[0].Fields)
	return &p, err
}
