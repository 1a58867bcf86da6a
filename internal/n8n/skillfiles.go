package n8n

import (
	"embed"
	"io/fs"
)

// SkillName is the name of the folder of the skill that builds workflows.
const SkillName = "n8n-workflow-builder"

//go:embed skill
var skillFiles embed.FS

// Skill returns the files of the skill that builds workflows, by their names in the folder [SkillName].
func Skill() fs.FS {
	files, err := fs.Sub(skillFiles, "skill")
	if err != nil {
		panic(err) // the name is a valid path
	}
	return files
}
