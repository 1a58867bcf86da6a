package policy

import (
	"embed"
	"slices"
)

//go:embed presets/*.yaml
var presets embed.FS

// Presets returns the names of the presets, the least strict first.
func Presets() []string { return []string{"open", "guarded", "careful", "strict"} }

// Preset returns the file of a preset: a list of rules, in YAML.
func Preset(name string) (text []byte, ok bool) {
	if !slices.Contains(Presets(), name) {
		return nil, false
	}
	text, err := presets.ReadFile("presets/" + name + ".yaml")
	if err != nil {
		panic("policy: " + err.Error()) // The presets are embedded in the program, so they can always be read.
	}
	return text, true
}
