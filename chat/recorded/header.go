package recorded

import "github.com/infinirl/infinirl/chat"

// What names a run, what names the task that several runs try, and what scores a
// run, the most telling names first.
var (
	idNames    = []string{"trajectory_id", "rollout_id", "run_id", "id", "session_id"}
	groupNames = []string{"group_id", "task_id", "prompt_id", "instance_id", "problem_id", "question_id"}
	scoreNames = []string{"score", "reward", "reward_info.reward", "resolved", "success"}
)

// header reads what an object tells of its run beside the messages.
func header(o object) (Run, error) {
	var run Run
	var err error
	if run.ID, err = o.firstName(idNames); err != nil {
		return run, err
	}
	if run.Group, err = o.firstName(groupNames); err != nil {
		return run, err
	}
	if run.Group == "" {
		run.Group = run.ID
	}
	if run.ID == "" || run.ID == run.Group {
		run.ID = run.Group
		trial, err := o.firstName([]string{"trial", "attempt"})
		if err != nil {
			return run, err
		}
		if trial != "" && run.ID != "" {
			run.ID += "/" + trial
		}
	}
	for _, name := range scoreNames {
		if v, ok := o.find(name); ok && o.file.Score == "" {
			if err := run.score(v); err != nil {
				return run, err
			}
			break
		}
	}
	if err := run.options(o); err != nil {
		return run, err
	}
	if v, ok := o.first("tools", "functions"); ok {
		tools, err := toolList(v)
		if err != nil {
			return run, err
		}
		run.Tools = tools
	}
	return run, nil
}

// firstName returns the first field of these names that names something.
func (o object) firstName(names []string) (string, error) {
	for _, name := range names {
		v, ok := o.get(name)
		if !ok || o.has("lc", "kwargs") && v.kind() == '[' { // a class of LangChain
			continue
		}
		if v.kind() == '{' || v.kind() == '[' {
			return "", v.errorf("%s names nothing: want a string or a number", kindNames[v.kind()])
		}
		if v.scalar() != "" {
			return v.scalar(), nil
		}
	}
	return "", nil
}

// score takes a value as the score.
func (r *Run) score(v value) error {
	score, err := v.number()
	r.Score, r.HasScore = score, err == nil
	return err
}

// options takes what the reader's options name, as far as the object has it.
func (r *Run) options(o object) error {
	if path := o.file.GroupBy; path != "" {
		r.Group = ""
		if v, ok := o.find(path); ok {
			if v.kind() == '{' || v.kind() == '[' {
				return v.errorf("%s names no group: want a string or a number", kindNames[v.kind()])
			}
			r.Group = v.scalar()
		}
	}
	if path := o.file.Score; path != "" {
		if v, ok := o.find(path); ok {
			return r.score(v)
		}
	}
	return nil
}

// options takes what the reader's options name from the document where the run
// itself has it not. A field that was asked for must be there.
func (d document) options(run *Run) error {
	group, hasScore := run.Group, run.HasScore
	wantGroup := d.file.GroupBy != "" && group == ""
	wantScore := d.file.Score != "" && !hasScore
	if (wantGroup || wantScore) && d.object.fields != nil {
		if err := run.options(d.object); err != nil {
			return err
		}
		if !wantGroup {
			run.Group = group
		}
	}
	switch {
	case d.file.GroupBy != "" && run.Group == "":
		return d.errorf("field %q, which is to name the group, is missing", d.file.GroupBy)
	case d.file.Score != "" && !run.HasScore:
		return d.errorf("field %q, which is to hold the score, is missing", d.file.Score)
	}
	return nil
}

// toolList reads tool schemas, wrapped in {"type": "function", "function": ...} or
// not; the schema is under parameters or input_schema. The list may stand as JSON in
// a string.
func toolList(v value) ([]chat.Tool, error) {
	if v.kind() == '"' {
		inner, err := v.embedded()
		if err != nil {
			return nil, err
		}
		v = inner
	}
	items, err := v.array()
	if err != nil {
		return nil, err
	}
	var tools []chat.Tool
	for _, item := range items {
		o, err := item.object()
		if err != nil {
			return nil, err
		}
		if inner, ok := o.get("function"); ok {
			if o, err = inner.object(); err != nil {
				return nil, err
			}
		}
		var tool chat.Tool
		if tool.Name, err = o.text("name"); err != nil {
			return nil, err
		}
		if tool.Name == "" { // a tool that the server brings along
			tool.Name, _ = o.text("type")
		}
		if tool.Description, err = o.text("description"); err != nil {
			return nil, err
		}
		if schema, ok := o.first("parameters", "input_schema", "inputSchema"); ok {
			tool.Parameters = []byte(schema.canonical())
		}
		tools = append(tools, tool)
	}
	return tools, nil
}
