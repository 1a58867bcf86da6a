package dataset

import "strings"

func firstNames() []string {
	return strings.Fields(`Ada Alan Amara Anton Beatriz Boris Carla Chen Clara Dana Daniel Dmitri Elena Emil Erika Farid
		Fatima Felix Grace Hana Hector Ida Ines Ivan Jana Jonas Julia Kai Karim Katrin Kenji Lars Laura Leila Lena
		Liam Luisa Maja Marco Maria Mei Milan Mona Nadia Nils Nora Olga Omar Oscar Paula Pedro Priya Rafael Rania
		Robin Rosa Samir Sara Sofia Stefan Tariq Thea Tomas Vera Viktor Wanda Yara Yusuf Zoe`)
}

func lastNames() []string {
	return strings.Fields(`Abbott Adler Almeida Andersen Arnold Bauer Becker Bennett Berg Blum Brandt Carter Castillo
		Cohen Costa Cruz Dalton Delgado Dietrich Duarte Ellis Engel Farrell Ferreira Fischer Fontaine Fuchs Garcia
		Gibson Graf Haddad Hansen Hartmann Hayes Hoffmann Holt Ibrahim Ito Jansen Jensen Kaya Keller Khan Klein
		Kowalski Krause Lang Larsen Lindgren Lopez Marino Martens Mendes Meyer Moreau Murphy Nakamura Nguyen Novak
		Okafor Olsen Ortega Park Petrov Quinn Rahman Reyes Richter Rossi Santos Sato Schmidt Silva Singh Sommer
		Tanaka Thomsen Torres Vogel Wagner Walsh Weber Winter Wolf Yilmaz Zhang Zimmer`)
}

func companyNames() []string {
	return strings.Fields(`Alder Amber Anchor Aspen Beacon Birch Blue Bright Cedar Clear Cobalt Copper Coral Crest Delta
		Drift Echo Elm Ember Falcon Fern Flint Forest Frost Garnet Glen Granite Green Harbor Hazel Heron Highland
		Indigo Iron Ivory Juniper Kestrel Lake Larch Linden Lunar Maple Marble Meadow Mesa Mill North Oak Ocean
		Olive Onyx Orchid Osprey Pearl Pine Prairie Quarry Quartz Raven Redwood Ridge River Rowan Sable Sage Sierra
		Silver Slate Solar Spruce Stone Summit Swift Thistle Timber Vale Violet Walnut Willow Wren`)
}

func companyKinds() []string {
	return strings.Fields(`Analytics Builders Clinic Consulting Design Dynamics Energy Foods Foundry Group Health Hotels
		Labs Logistics Media Motors Partners Print Retail Robotics School Software Studio Supply Systems Tools Travel
		Works`)
}

// areaCodes returns one area code for each 100 customers. Each area code has the 100 numbers 555-0100 to 555-0199, which
// are reserved for fiction.
func areaCodes() []int {
	return []int{
		202, 203, 206, 207, 208, 212, 213, 214, 215, 216, 301, 302, 303, 304, 305,
		307, 312, 313, 314, 316, 401, 402, 404, 405, 406, 410, 412, 414, 415, 501,
	}
}

// products returns the price list. Prices are multiples of 0.25; see Sale.
func products() []Product {
	return []Product{
		{"Desk Lamp", "furniture", 39.50},
		{"Office Chair", "furniture", 249},
		{"Standing Desk", "furniture", 589},
		{"Filing Cabinet", "furniture", 179.75},
		{"Whiteboard", "furniture", 119.25},
		{"Notebook 14", "computers", 1189},
		{"Docking Station", "computers", 214.50},
		{"Monitor 27", "computers", 329},
		{"Keyboard", "computers", 74.75},
		{"Headset", "computers", 96.25},
		{"Webcam", "computers", 68.50},
		{"Copy Paper", "supplies", 5.25},
		{"Toner", "supplies", 82.75},
		{"Pen Set", "supplies", 12.50},
		{"Shipping Boxes", "supplies", 27.25},
		{"Coffee Beans", "supplies", 18.75},
		{"Support Plan", "services", 450},
		{"Installation", "services", 160},
	}
}
