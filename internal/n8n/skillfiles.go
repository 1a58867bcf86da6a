package n8n

import _ "embed"

// SkillName is the folder of the skill that builds workflows.
const SkillName = "n8n-workflow-builder"

var (
	//go:embed skill/SKILL.md
	skillManifest string
	//go:embed skill/skill.js
	skillModule string
)

// Skill is the skill that builds workflows: its files by their names in the folder [SkillName].
func Skill() map[string]string {
	return map[string]string{"SKILL.md": skillManifest, "skill.js": skillModule}
}
