package mcpclient

import (
	"encoding/json"

	"mcp-code-exec-harness/internal/startup"
)

// oldestVersion is the oldest protocol version that the SDK supports. Older versions do not differ in anything that is used here.
const oldestVersion = "2024-11-05"

var versionDate = startup.Regexp(`^\d{4}-\d{2}-\d{2}$`)

// plainHandshake converts a result of initialize so that the SDK can decode it: capabilities become objects, whatever their type,
// and a version before oldestVersion becomes oldestVersion. version is the version that the server sent.
func plainHandshake(raw json.RawMessage) (plain json.RawMessage, version string) {
	var members map[string]json.RawMessage
	if !isObject(raw) || json.Unmarshal(raw, &members) != nil {
		return raw, ""
	}
	if given, ok := members["protocolVersion"]; ok {
		version = asText(given)
		spoken := version
		if versionDate().MatchString(version) && version < oldestVersion {
			spoken = oldestVersion
		}
		members["protocolVersion"], _ = json.Marshal(spoken) // a string can always be encoded
	}
	if given, ok := members["instructions"]; ok {
		members["instructions"], _ = json.Marshal(textOrEmpty(given))
	}
	if given, ok := members["serverInfo"]; ok {
		members["serverInfo"] = plainInfo(given)
	}
	var capabilities map[string]json.RawMessage
	_ = json.Unmarshal(members["capabilities"], &capabilities) // anything but an object announces nothing
	for name, value := range capabilities {
		switch {
		case isList(value), !isObject(value) && asFlag(value):
			capabilities[name] = json.RawMessage("{}")
		case !isObject(value):
			delete(capabilities, name)
		case name == "tools" || name == "prompts" || name == "resources":
			var offered struct {
				Subscribe   bool `json:"subscribe,omitempty"`
				ListChanged bool `json:"listChanged,omitempty"`
			}
			_ = decodeLoosely(value, &offered) // an object can be decoded
			capabilities[name], _ = json.Marshal(offered)
		}
	}
	members["capabilities"], _ = json.Marshal(capabilities)
	plain, _ = json.Marshal(members)
	return plain, version
}

// textOrEmpty returns the text of a value, "" for null.
func textOrEmpty(raw json.RawMessage) string {
	if !present(raw) {
		return ""
	}
	return asText(raw)
}

// plainInfo converts serverInfo so that all members are strings; a bare string becomes the name.
func plainInfo(raw json.RawMessage) json.RawMessage {
	var info Info
	if isObject(raw) {
		_ = decodeLoosely(raw, &info) // an object can be decoded
	} else {
		info.Name = textOrEmpty(raw)
	}
	plain, _ := json.Marshal(info)
	return plain
}
