// Package dataset generates the data of the company in the demo servers: its sales team, customers, products and sales. All
// demo servers use it, so the ids of the database and of the CRM agree. The same binary always generates the same
// data. All people are invented: their addresses are under example.com, their telephone numbers in the 555-0100 block.
package dataset

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// Sizes and dates of the generated data. With a year and a half, a report on 2024 can be repeated for the first half of 2025.
const (
	Customers = 3000
	FirstDay  = "2024-01-01"
	LastDay   = "2025-06-30"

	firstCustomerID = 1001
	seed            = 20240101
)

// Data is the generated data. It is shared, so callers must not change it.
type Data struct {
	Team      []Member
	Customers []Customer // customers ordered by ID, without gaps
	Products  []Product
	Sales     []Sale // sales ordered by date, then by ID
}

// Member is a member of the company's sales team.
type Member struct {
	ID     int    `json:"id"`
	Name   string `json:"name"`
	Email  string `json:"email"`
	Role   string `json:"role" jsonschema:"sales lead or account manager"`
	Region string `json:"region" jsonschema:"sales region; the sales lead has all of them"`
}

// Customer is a person who buys for a company. The database has all fields except Email and Phone; the CRM has all fields.
type Customer struct {
	ID      int    `json:"id"`
	Name    string `json:"name"`
	Email   string `json:"email"`
	Phone   string `json:"phone"`
	Company string `json:"company"`
	Segment string `json:"segment"`
	Region  string `json:"region"`
	Owner   string `json:"owner" jsonschema:"name of the account manager"`
	Since   string `json:"since" jsonschema:"date of the first contact, YYYY-MM-DD"`
}

// Product is an article of the price list.
type Product struct {
	Name     string
	Category string
	Price    float64
}

// Sale is one order line. Amount is a multiple of 0.25, which a binary floating point number represents exactly, so that sums
// are the same in SQL, in JavaScript and in any order.
type Sale struct {
	ID         int
	Date       string // YYYY-MM-DD
	CustomerID int
	Product    string
	Region     string
	Quantity   int
	Amount     float64
}

// Regions lists the sales regions.
func Regions() []string { return []string{"East", "North", "South", "West"} }

// Segments lists the customer segments, largest first.
func Segments() []string {
	return []string{"small business", "mid-market", "enterprise", "public sector"}
}

// Load generates the data at the first call and returns the same value at every call. It is safe for concurrent use.
var Load = sync.OnceValue(generate)

// Customer returns the customer with an ID.
func (d *Data) Customer(id int) (Customer, bool) {
	i := id - firstCustomerID
	if i < 0 || i >= len(d.Customers) {
		return Customer{}, false
	}
	return d.Customers[i], true
}

// source makes a fixed pseudo-random sequence of choices. It uses only PCG.Uint64, whose values are specified, while the
// results of the convenience methods of math/rand/v2 may change.
type source struct {
	pcg         *rand.PCG
	first, last []string // names of people
}

func (s source) below(n int) int { return int(s.pcg.Uint64() % uint64(n)) }

func generate() *Data {
	s := source{pcg: rand.NewPCG(seed, seed), first: firstNames(), last: lastNames()}
	d := &Data{Products: products()}
	d.Team = team(s)
	d.Customers = customers(s, d.Team)
	d.Sales = sales(s, d.Customers, d.Products)
	return d
}

func team(s source) []Member {
	members := []Member{{Role: "sales lead", Region: "all"}}
	for _, region := range Regions() {
		for range 3 {
			members = append(members, Member{Role: "account manager", Region: region})
		}
	}
	seen := map[string]bool{}
	for i := range members {
		name := freshName(s, seen)
		members[i].ID = i + 1
		members[i].Name = name
		members[i].Email = mailbox(name) + "@fieldstone.example.com"
	}
	return members
}

func customers(s source, team []Member) []Customer {
	owners := map[string][]string{}
	for _, m := range team {
		owners[m.Region] = append(owners[m.Region], m.Name)
	}
	regions, segments := Regions(), Segments()
	names, areas := companyNames(), areaCodes()
	kinds := companyKinds()
	emails := map[string]int{}
	list := make([]Customer, Customers)
	for i := range list {
		company := names[s.below(len(names))] + " " + kinds[s.below(len(kinds))]
		name := fullName(s)
		email := mailbox(name) + "@" + strings.ToLower(strings.ReplaceAll(company, " ", "-")) + ".example.com"
		emails[email]++
		if n := emails[email]; n > 1 {
			email = strings.Replace(email, "@", fmt.Sprintf("%d@", n), 1)
		}
		region := regions[s.below(len(regions))]
		owner := owners[region][s.below(len(owners[region]))]
		list[i] = Customer{
			ID:      firstCustomerID + i,
			Name:    name,
			Email:   email,
			Phone:   fmt.Sprintf("+1 %d-555-01%02d", areas[i/100%len(areas)], i%100),
			Company: company,
			Segment: segments[min(s.below(len(segments)), s.below(len(segments)))],
			Region:  region,
			Owner:   owner,
			Since:   day(-s.below(2000) - 1),
		}
	}
	return list
}

// sales generates 12 to 23 orders a day, half as many at weekends, more towards the end of a year and more in the second
// year. Half of all orders come from a twentieth of the customers, so that the best customers stand out.
func sales(s source, customers []Customer, products []Product) []Sale {
	first, last := mustDate(FirstDay), mustDate(LastDay)
	var list []Sale
	for date := first; !date.After(last); date = date.AddDate(0, 0, 1) {
		orders := 12 + s.below(8) + int(date.Month())/3 + 2*(date.Year()-first.Year())
		if wd := date.Weekday(); wd == time.Saturday || wd == time.Sunday {
			orders /= 2
		}
		text := date.Format(time.DateOnly)
		for range orders {
			among := len(customers)
			if s.below(2) == 0 {
				among /= 20
			}
			// 7919 is coprime to 3000, so the frequent customers are spread over all ids.
			customer := customers[s.below(among)*7919%len(customers)]
			product := products[s.below(len(products))]
			quantity := 1 + min(s.below(40), s.below(40))
			percent := 100 - 5*min(s.below(4), s.below(4))
			quarters := int(product.Price*4) * quantity * percent / 100
			list = append(list, Sale{
				ID: len(list) + 1, Date: text, CustomerID: customer.ID, Product: product.Name,
				Region: customer.Region, Quantity: quantity, Amount: float64(quarters) / 4,
			})
		}
	}
	return list
}

func fullName(s source) string {
	return s.first[s.below(len(s.first))] + " " + s.last[s.below(len(s.last))]
}

func freshName(s source, seen map[string]bool) string {
	for {
		if name := fullName(s); !seen[name] {
			seen[name] = true
			return name
		}
	}
}

func mailbox(name string) string { return strings.ToLower(strings.ReplaceAll(name, " ", ".")) }

func day(offset int) string { return mustDate(FirstDay).AddDate(0, 0, offset).Format(time.DateOnly) }

func mustDate(text string) time.Time {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		panic(err) // text is always one of the constants FirstDay and LastDay
	}
	return t
}
