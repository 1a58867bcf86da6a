package frame

import (
	"encoding/json"
	"errors"
	"reflect"
)

// DecodeArgs decodes the arguments of a host call, an object that the guest wrote, into a struct whose fields have json
// tags. It compares keys exactly: encoding/json would also take "NAME" for "name", so that a value that was checked
// under one spelling could be replaced under another. It ignores other keys. For a value
// of the wrong type, the error is a *json.UnmarshalTypeError with the key as its field.
func DecodeArgs(args json.RawMessage, into any) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(args, &values); err != nil {
		return err
	}
	v := reflect.ValueOf(into).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("json")
		value, there := values[name]
		if !there {
			continue
		}
		if err := json.Unmarshal(value, v.Field(i).Addr().Interface()); err != nil {
			if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Field == "" {
				wrong.Field = name
			}
			return err
		}
	}
	return nil
}
