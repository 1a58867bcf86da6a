// Package openapi reads OpenAPI 3.0 and 3.1 documents as tools: an operation has a name, JSON Schemas of its input and answer, and makes
// an HTTP request of an input. The package sends nothing and loads nothing.
//
// A document is foreign: the work for it is linear in its size, also where its references form cycles or long chains.
package openapi
