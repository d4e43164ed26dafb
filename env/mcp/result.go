package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// refusal returns what a server answers instead of a result: unknown tools, arguments that
// do not fit their schema.
func refusal(err error) (text string, answered bool) {
	var wire *jsonrpc.Error
	if !errors.Is(err, mcp.ErrConnectionClosed) && errors.As(err, &wire) {
		return wire.Message, true
	}
	return "", false
}

// written returns a result as text: images as [image], sound as [audio].
func written(result *mcp.CallToolResult) (string, error) {
	var parts []string
	for _, content := range result.Content {
		switch c := content.(type) {
		case *mcp.TextContent:
			parts = append(parts, c.Text)
		case *mcp.ImageContent:
			parts = append(parts, "[image]")
		case *mcp.AudioContent:
			parts = append(parts, "[audio]")
		case *mcp.ResourceLink:
			parts = append(parts, fmt.Sprintf("[resource %s: %s]", c.Name, c.URI))
		case *mcp.EmbeddedResource:
			switch {
			case c.Resource == nil:
				return "", errors.New("a result with a resource that is none")
			case c.Resource.Text != "" || len(c.Resource.Blob) == 0:
				parts = append(parts, c.Resource.Text)
			case strings.HasPrefix(c.Resource.MIMEType, "image/"):
				parts = append(parts, "[image]")
			default:
				parts = append(parts, "[file "+c.Resource.URI+"]")
			}
		default:
			return "", fmt.Errorf("a result with a part of type %T: want text, image, audio or resource", content)
		}
	}
	if len(parts) == 0 && result.StructuredContent != nil {
		data, err := json.Marshal(result.StructuredContent)
		if err != nil {
			return "", err
		}
		parts = append(parts, string(data))
	}
	text := strings.Join(parts, "\n")
	if result.IsError {
		text = "error: " + text
	}
	return text, nil
}
