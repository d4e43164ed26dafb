module github.com/infinirl/infinirl

go 1.26.0

require (
	github.com/alecthomas/kong v1.17.0 // indirect
	github.com/dlclark/regexp2 v1.12.0
	github.com/goccy/go-yaml v1.19.2 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
