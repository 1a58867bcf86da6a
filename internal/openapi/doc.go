// Package openapi turns the operations of OpenAPI 3.0 and 3.1 documents into tools. An operation has a name and JSON Schemas of its input and answer,
// and makes an HTTP request from an input. The package sends nothing and loads nothing.
//
// A document is not trusted: the work for it is linear in its size, even if its references form cycles or long chains.
package openapi
