package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// An Edit sets a key of a scope file to a value. The path is for example outcomes, checkout,
// qta, p50. The value "" removes the key with everything in it.
type Edit struct {
	Path  []string
	Value string
}

// Key returns the path in the form of [Error].
func (e Edit) Key() string { return strings.Join(e.Path, ".") }

// Edited returns the configuration after some edits, made one after the other. The errors are the
// same as for a file with these edits, with its path.
func (c Config) Edited(edits ...Edit) (Config, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(c.Format(), &doc); err != nil {
		return Config{}, err
	}
	for _, e := range edits {
		e.write(doc.Content[0], e.Path)
		if e.scale() {
			Edit{Path: append(slices.Clone(e.Path[:2]), "fitted")}.write(doc.Content[0], append(slices.Clone(e.Path[:2]), "fitted"))
		}
	}
	edited, err := c.reader().config(value{node: doc.Content[0]})
	return edited, withoutLine(err)
}

// scale reports whether the edit sets the scale of an outcome.
func (e Edit) scale() bool {
	return len(e.Path) == 3 && e.Path[0] == "outcomes" && slices.Contains([]string{"dmax", "bins", "exponent"}, e.Path[2])
}

// write makes the edit in a mapping. The path is relative to the mapping.
func (e Edit) write(mapping *yaml.Node, path []string) {
	at := indexOfKey(mapping, path[0])
	switch {
	case at < 0 && e.Value == "":
	case e.Value == "" && len(path) == 1:
		mapping.Content = slices.Delete(mapping.Content, at, at+2)
	case at < 0:
		key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: path[0]}
		mapping.Content = append(mapping.Content, key, e.node(path[1:]))
	case len(path) == 1:
		mapping.Content[at+1] = e.node(nil)
	default:
		e.write(mapping.Content[at+1], path[1:])
	}
}

// indexOfKey returns the index of a key in a mapping, or -1.
func indexOfKey(mapping *yaml.Node, key string) int {
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// node returns the value, wrapped in mappings for the rest of the path.
func (e Edit) node(path []string) *yaml.Node {
	if len(path) == 0 {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: e.Value}
	}
	mapping := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	e.write(mapping, path)
	return mapping
}

// Outcome returns the entry of an outcome, or the default outcome if it has none.
func (c Config) Outcome(name string) Outcome {
	for _, o := range c.Outcomes {
		if o.Name == name {
			return o
		}
	}
	return defaultOutcome(name)
}
