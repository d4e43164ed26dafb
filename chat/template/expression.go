package template

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxHeight bounds how deep the expressions of a tag are nested: the engine parses and
// evaluates them recursively.
const maxHeight = 200

var errHeight = fmt.Errorf("an expression is nested more than %d deep", maxHeight)

// code is an expression for the engine in which everything that takes time or memory
// calls a function of guard.
type code struct {
	text   string
	height int
	fn     *callee // the expression as what is called
}

// callee is an expression of the form object.name.
type callee struct{ object, name string }

// parser reads expressions as jinja2 does: its precedences, lowest first, are the
// methods of parser from condition to primary.
type parser struct {
	tokens []lexeme
	at     int
	depth  int
}

type lexeme struct {
	kind byte // n name, i integer, f float, s string in its quotes, o operator, 0 the end
	text string
}

func newParser(source string) (*parser, error) {
	p := &parser{}
	for i := 0; i < len(source); {
		c := source[i]
		start := i
		switch {
		case strings.IndexByte(" \t\r\n\v\f", c) >= 0:
			i++
			continue
		case c == '\'' || c == '"':
			for i++; i < len(source) && source[i] != c; i++ {
				if source[i] == '\\' {
					i++
				}
			}
			if i++; i > len(source) {
				return nil, errors.New("a string is not closed")
			}
			p.tokens = append(p.tokens, lexeme{'s', source[start:i]})
		case isDigit(c):
			kind := byte('i')
			digits := func() {
				for i < len(source) && (isDigit(source[i]) || source[i] == '_') {
					i++
				}
			}
			digits()
			if i+1 < len(source) && source[i] == '.' && isDigit(source[i+1]) {
				kind = 'f'
				i++
				digits()
			}
			if exponent := exponents.FindString(source[i:min(i+32, len(source))]); exponent != "" {
				kind = 'f'
				i += len(exponent)
			}
			text := strings.ReplaceAll(source[start:i], "_", "")
			if _, err := strconv.ParseInt(text, 10, 64); kind == 'i' && err != nil {
				return nil, fmt.Errorf("the number %.30s is larger than 64 bits", text)
			}
			if f, err := strconv.ParseFloat(text, 64); kind == 'f' {
				if err != nil {
					return nil, fmt.Errorf("the number %.30s is out of range", text)
				}
				if text = strconv.FormatFloat(f, 'f', -1, 64); !strings.Contains(text, ".") {
					text += ".0" // the engine knows no exponent without a point
				}
			}
			p.tokens = append(p.tokens, lexeme{kind, text})
		case isNameByte(c):
			for i < len(source) && (isNameByte(source[i]) || isDigit(source[i])) {
				i++
			}
			p.tokens = append(p.tokens, lexeme{'n', source[start:i]})
		default:
			i++
			if i < len(source) && strings.Contains("** // == != <= >=", source[start:i+1]) && source[i] != ' ' {
				i++
			}
			if i == start+1 && strings.IndexByte("+-*/%<>=,.:()[]{}|~", c) < 0 {
				return nil, fmt.Errorf("unexpected character %q", []rune(source[start:min(start+4, len(source))])[0])
			}
			p.tokens = append(p.tokens, lexeme{'o', source[start:i]})
		}
	}
	return p, nil
}

var exponents = regexp.MustCompile(`^[eE][+-]?[0-9]+`)

func isDigit(c byte) bool    { return '0' <= c && c <= '9' }
func isNameByte(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }

func (p *parser) peek() lexeme { return p.ahead(0) }

func (p *parser) ahead(n int) lexeme {
	if p.at+n < len(p.tokens) {
		return p.tokens[p.at+n]
	}
	return lexeme{}
}

// take advances over an operator or keyword, if it is next.
func (p *parser) take(text string) bool {
	if t := p.peek(); (t.kind == 'o' || t.kind == 'n') && t.text == text {
		p.at++
		return true
	}
	return false
}

func (p *parser) want(text string) error {
	if !p.take(text) {
		return p.unexpected(fmt.Sprintf("%q", text))
	}
	return nil
}

func (p *parser) unexpected(want string) error {
	if t := p.peek(); t.kind != 0 {
		return fmt.Errorf("unexpected %.30q: want %s", t.text, want)
	}
	return fmt.Errorf("unexpected end: want %s", want)
}

func (p *parser) end() error {
	if p.peek().kind != 0 {
		return p.unexpected("the end of the tag")
	}
	return nil
}

// name reads the name of a variable.
func (p *parser) name() (string, error) {
	t := p.peek()
	if t.kind != 'n' || keyword[t.text] {
		return "", p.unexpected("a name")
	}
	if strings.HasPrefix(t.text, "__") {
		return "", fmt.Errorf("the name %.30q: names that begin with __ are reserved", t.text)
	}
	p.at++
	return t.text, nil
}

var keyword = map[string]bool{"and": true, "or": true, "not": true, "if": true, "else": true, "in": true, "is": true,
	"true": true, "True": true, "false": true, "False": true, "none": true, "None": true}

// call writes a call of a function of guard.
func call(function string, arguments ...code) (code, error) {
	var text strings.Builder
	text.WriteString(function)
	text.WriteByte('(')
	height := 0
	for i, a := range arguments {
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString(a.text)
		height = max(height, a.height)
	}
	text.WriteByte(')')
	return checked(code{text: text.String(), height: height + 1})
}

func checked(c code) (code, error) {
	if c.height > maxHeight {
		return code{}, errHeight
	}
	return c, nil
}

// literal is text that the engine evaluates to what it says.
func literal(text string) code { return code{text: text, height: 1} }

func quoted(text string) code {
	return literal(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`)
}

// tuple reads an expression, or several with commas between them, which are a list.
func (p *parser) tuple() (code, error) {
	first, err := p.condition()
	if err != nil || !p.take(",") {
		return first, err
	}
	items := []code{first}
	for p.peek().kind != 0 && p.peek().text != ")" {
		item, err := p.condition()
		if err != nil {
			return item, err
		}
		items = append(items, item)
		if !p.take(",") {
			break
		}
	}
	return call(funcList, items...)
}

func (p *parser) condition() (code, error) {
	if p.depth++; p.depth > maxHeight {
		return code{}, errHeight
	}
	defer func() { p.depth-- }()
	value, err := p.or()
	for err == nil && p.take("if") {
		var test, other code
		if test, err = p.or(); err != nil {
			break
		}
		other = literal("__undefined")
		if p.take("else") {
			if other, err = p.condition(); err != nil {
				break
			}
		}
		value, err = checked(code{
			text:   "(" + value.text + " if " + test.text + " else " + other.text + ")",
			height: 1 + max(value.height, test.height, other.height),
		})
	}
	return value, err
}

func (p *parser) or() (code, error)  { return p.chain("or", p.and) }
func (p *parser) and() (code, error) { return p.chain("and", p.not) }

// chain reads operands of an operator that the engine evaluates, from left to right and
// no more than it needs.
func (p *parser) chain(operator string, operand func() (code, error)) (code, error) {
	first, err := operand()
	if err != nil || p.peek().kind != 'n' || p.peek().text != operator {
		return first, err
	}
	texts, height := []string{first.text}, first.height
	for p.take(operator) {
		next, err := operand()
		if err != nil {
			return next, err
		}
		texts = append(texts, next.text)
		if height = 1 + max(height, next.height); height > maxHeight {
			return code{}, errHeight
		}
	}
	return code{text: "(" + strings.Join(texts, " "+operator+" ") + ")", height: height}, nil
}

func (p *parser) not() (code, error) {
	if !p.take("not") {
		return p.compare()
	}
	if p.depth++; p.depth > maxHeight {
		return code{}, errHeight
	}
	defer func() { p.depth-- }()
	operand, err := p.not()
	if err != nil {
		return operand, err
	}
	return checked(code{text: "(not " + operand.text + ")", height: operand.height + 1})
}

func (p *parser) compare() (code, error) {
	left, err := p.sum()
	if err != nil {
		return left, err
	}
	operands := []code{left}
	for {
		operator := ""
		switch t := p.peek(); {
		case t.kind == 'o' && strings.Contains(" == != < > <= >= ", " "+t.text+" "):
			operator = t.text
		case t.kind == 'n' && t.text == "in":
			operator = "in"
		case t.kind == 'n' && t.text == "not" && p.ahead(1).text == "in":
			operator = "not in"
			p.at++
		case len(operands) == 1:
			return left, nil
		default:
			return call(funcCompare, operands...)
		}
		p.at++
		right, err := p.sum()
		if err != nil {
			return right, err
		}
		operands = append(operands, quoted(operator), right)
	}
}

func (p *parser) sum() (code, error) {
	left, err := p.concat()
	for err == nil {
		switch {
		case p.take("+"):
			operands := []code{left}
			for more := true; more; more = p.take("+") {
				var next code
				if next, err = p.concat(); err != nil {
					return next, err
				}
				operands = append(operands, next)
			}
			left, err = call(funcAdd, operands...)
		case p.take("-"):
			var right code
			if right, err = p.concat(); err != nil {
				return right, err
			}
			left, err = call(funcArithmetic, quoted("-"), left, right)
		default:
			return left, nil
		}
	}
	return left, err
}

func (p *parser) concat() (code, error) {
	first, err := p.product()
	if err != nil || p.peek().text != "~" {
		return first, err
	}
	operands := []code{first}
	for p.take("~") {
		next, err := p.product()
		if err != nil {
			return next, err
		}
		operands = append(operands, next)
	}
	return call(funcConcat, operands...)
}

func (p *parser) product() (code, error) { return p.arithmetic(p.power, "*", "/", "//", "%") }
func (p *parser) power() (code, error) {
	return p.arithmetic(func() (code, error) { return p.unary(true) }, "**")
}

func (p *parser) arithmetic(operand func() (code, error), operators ...string) (code, error) {
	left, err := operand()
next:
	for err == nil {
		for _, operator := range operators {
			if p.peek().kind == 'o' && p.take(operator) {
				var right code
				if right, err = operand(); err != nil {
					return right, err
				}
				left, err = call(funcArithmetic, quoted(operator), left, right)
				continue next
			}
		}
		return left, nil
	}
	return left, err
}

func (p *parser) unary(filters bool) (code, error) {
	var value code
	var err error
	if operator := p.peek(); operator.kind == 'o' && (p.take("-") || p.take("+")) {
		if p.depth++; p.depth > maxHeight {
			return code{}, errHeight
		}
		if value, err = p.unary(false); err == nil {
			value, err = call(funcArithmetic, quoted(operator.text), literal("0"), value)
		}
		p.depth--
	} else if value, err = p.primary(); err == nil {
		value, err = p.postfix(value)
	}
	if err == nil && filters {
		value, err = p.filters(value)
	}
	return value, err
}

func (p *parser) primary() (code, error) {
	t := p.peek()
	switch {
	case t.kind == 'n' && keyword[t.text] && strings.Contains("true false none ", strings.ToLower(t.text)+" "):
		p.at++
		return literal(strings.ToLower(t.text)), nil
	case t.kind == 'n':
		name, err := p.name()
		return literal(name), err
	case t.kind == 'i' || t.kind == 'f':
		p.at++
		return literal(t.text), nil
	case t.kind == 's':
		p.at++
		if p.peek().kind != 's' {
			return literal(t.text), nil
		}
		parts := []code{literal(t.text)}
		for ; p.peek().kind == 's'; p.at++ {
			parts = append(parts, literal(p.peek().text))
		}
		return call(funcConcat, parts...)
	case p.take("("):
		if p.take(")") {
			return call(funcList)
		}
		inner, err := p.tuple()
		if err == nil {
			err = p.want(")")
		}
		inner.fn = nil
		return inner, err
	case p.take("["):
		items, err := p.list("]", func() ([]code, error) {
			item, err := p.condition()
			return []code{item}, err
		})
		if err != nil {
			return code{}, err
		}
		return call(funcList, items...)
	case p.take("{"):
		items, err := p.list("}", func() ([]code, error) {
			key, err := p.condition()
			if err == nil {
				err = p.want(":")
			}
			if err != nil {
				return nil, err
			}
			value, err := p.condition()
			return []code{key, value}, err
		})
		if err != nil {
			return code{}, err
		}
		return call(funcDict, items...)
	}
	return code{}, p.unexpected("an expression")
}

// list reads items with commas between them up to a closing bracket.
func (p *parser) list(closing string, item func() ([]code, error)) ([]code, error) {
	var items []code
	for n := 0; !p.take(closing); n++ {
		if n > 0 {
			if err := p.want(","); err != nil {
				return nil, err
			}
			if p.take(closing) {
				break
			}
		}
		next, err := item()
		if err != nil {
			return nil, err
		}
		items = append(items, next...)
	}
	return items, nil
}

// postfix reads attributes, subscripts and calls.
func (p *parser) postfix(value code) (code, error) {
	var err error
	for err == nil {
		switch {
		case p.take("."):
			t := p.peek()
			if t.kind != 'n' && t.kind != 'i' {
				return value, p.unexpected("the name of an attribute")
			}
			p.at++
			object := value
			if t.kind == 'i' {
				value, err = call(funcItem, object, literal(t.text))
				break
			}
			if value, err = call(funcAttribute, object, quoted(t.text)); err == nil {
				value.fn = &callee{object.text, t.text}
			}
		case p.take("["):
			value, err = p.subscript(value)
		case p.peek().text == "(" && p.peek().kind == 'o':
			value, err = p.called(value)
		default:
			return value, nil
		}
	}
	return value, err
}

// subscript reads what follows an opening bracket.
func (p *parser) subscript(object code) (code, error) {
	parts := []code{object}
	slice := false
	for len(parts) < 4 {
		part := literal("none")
		if t := p.peek(); t.text != ":" && t.text != "]" || t.kind != 'o' {
			var err error
			if part, err = p.condition(); err != nil {
				return part, err
			}
		} else if t.text == "]" && !slice {
			return code{}, p.unexpected("an index")
		}
		parts = append(parts, part)
		if !p.take(":") {
			break
		}
		slice = true
	}
	if err := p.want("]"); err != nil {
		return code{}, err
	}
	if !slice {
		return call(funcItem, parts...)
	}
	return call(funcSlice, parts...)
}

// called reads the arguments of a call.
func (p *parser) called(function code) (code, error) {
	head := []code{function}
	name := funcCall
	if function.fn != nil {
		name = funcMethod
		head = []code{{text: function.fn.object, height: function.height}, quoted(function.fn.name)}
	}
	arguments, err := p.arguments()
	if err != nil {
		return code{}, err
	}
	return call(name, append(head, arguments...)...)
}

// arguments reads what stands in parentheses: the named arguments as one mapping, or
// none, and then the others.
func (p *parser) arguments() ([]code, error) {
	if err := p.want("("); err != nil {
		return nil, err
	}
	var named []code
	positional, err := p.list(")", func() ([]code, error) {
		if p.peek().kind == 'n' && p.ahead(1).kind == 'o' && p.ahead(1).text == "=" {
			name, err := p.name()
			if err != nil {
				return nil, err
			}
			p.at++
			value, err := p.condition()
			named = append(named, quoted(name), value)
			return nil, err
		}
		value, err := p.condition()
		return []code{value}, err
	})
	if err != nil {
		return nil, err
	}
	mapping := literal("none")
	if named != nil {
		if mapping, err = call(funcDict, named...); err != nil {
			return nil, err
		}
	}
	return append([]code{mapping}, positional...), nil
}

// filters reads filters and tests.
func (p *parser) filters(value code) (code, error) {
	var err error
	for err == nil {
		switch {
		case p.take("|"):
			value, err = p.filter(value)
		case p.peek().kind == 'n' && p.take("is"):
			value, err = p.test(value)
		case p.peek().kind == 'o' && strings.Contains("([.", p.peek().text):
			value, err = p.postfix(value)
		default:
			return value, nil
		}
	}
	return value, err
}

func (p *parser) filter(value code) (code, error) {
	t := p.peek()
	if t.kind != 'n' {
		return value, p.unexpected("the name of a filter")
	}
	p.at++
	arguments := []code{literal("none")}
	if p.peek().kind == 'o' && p.peek().text == "(" {
		var err error
		if arguments, err = p.arguments(); err != nil {
			return value, err
		}
	}
	return call(funcFilter, append([]code{quoted(t.text), arguments[0], value}, arguments[1:]...)...)
}

func (p *parser) test(value code) (code, error) {
	negated := p.take("not")
	t := p.peek()
	if t.kind != 'n' {
		return value, p.unexpected("the name of a test")
	}
	p.at++
	var arguments []code
	var err error
	switch next := p.peek(); {
	case next.kind == 'o' && next.text == "(":
		if arguments, err = p.arguments(); err != nil {
			return value, err
		}
		if arguments[0].text != "none" {
			return value, fmt.Errorf("the test %.30q takes no named arguments", t.text)
		}
		arguments = arguments[1:]
	case next.kind == 's' || next.kind == 'i' || next.kind == 'f' || next.kind == 'o' && strings.Contains("[{", next.text) ||
		next.kind == 'n' && (!keyword[next.text] || strings.Contains("true false none ", strings.ToLower(next.text)+" ")):
		argument, err := p.primary()
		if err == nil {
			argument, err = p.postfix(argument)
		}
		if err != nil {
			return value, err
		}
		arguments = []code{argument}
	}
	if equality[t.text] != "" {
		if len(arguments) != 1 {
			return value, fmt.Errorf("the test %.30q: want one argument", t.text)
		}
		value, err = call(funcCompare, value, quoted(equality[t.text]), arguments[0])
	} else {
		if value, err = call(funcUse, value); err != nil {
			return value, err
		}
		text, height := "("+value.text+" is "+t.text, value.height
		for i, a := range arguments {
			if a, err = call(funcUse, a); err != nil {
				return a, err
			}
			text += map[bool]string{true: "(", false: ", "}[i == 0] + a.text
			height = max(height, a.height)
		}
		if len(arguments) > 0 {
			text += ")"
		}
		value, err = checked(code{text: text + ")", height: height + 1})
	}
	if err == nil && negated {
		value, err = checked(code{text: "(not " + value.text + ")", height: value.height + 1})
	}
	return value, err
}

// equality are the tests that look at whole lists and mappings, as operators.
var equality = map[string]string{"eq": "==", "equalto": "==", "ne": "!=", "in": "in", "sameas": "=="}
