package n8n

import _ "embed"

// SkillName is the name of the folder of the skill that builds workflows.
const SkillName = "n8n-workflow-builder"

var (
	//go:embed skill/SKILL.md
	skillManifest string
	//go:embed skill/skill.js
	skillModule string
)

// Skill returns the files of the skill that builds workflows, by name in the folder [SkillName].
func Skill() map[string]string {
	return map[string]string{"SKILL.md": skillManifest, "skill.js": skillModule}
}
