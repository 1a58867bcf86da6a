package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"net/mail"
	"strings"
	"testing"
	"time"
)

// wantHash is the hash of the data. Users see the data in the demo, and recorded runs depend on it, so it must not change by accident.
const wantHash = "4054aaa53d542a378992b527767cb4655af01bc041d2cb2001563472bd8645b5"

func TestDeterministic(t *testing.T) {
	t.Parallel()
	hash := func(d *Data) string {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		return hex.EncodeToString(sum[:])
	}
	if got := hash(generate()); got != wantHash {
		t.Errorf("hash of the generated data = %s, want %s", got, wantHash)
	}
	loaded := Load()
	if loaded != Load() {
		t.Error("Load generated the data twice")
	}
	if got := hash(loaded); got != wantHash {
		t.Errorf("hash of the loaded data = %s, want %s", got, wantHash)
	}
}

func TestIntegrity(t *testing.T) {
	t.Parallel()
	d := Load()
	if len(d.Customers) != Customers {
		t.Errorf("%d customers, want %d", len(d.Customers), Customers)
	}
	if n := len(d.Sales); n < 6000 || n > 12000 {
		t.Errorf("%d sales, want thousands", n)
	}
	products := map[string]float64{}
	for _, p := range d.Products {
		products[p.Name] = p.Price
	}
	perYear, perRegion := map[string]float64{}, map[string]float64{}
	previous := ""
	for i, s := range d.Sales {
		customer, ok := d.Customer(s.CustomerID)
		switch {
		case !ok:
			t.Fatalf("sale %d names customer %d, who does not exist", s.ID, s.CustomerID)
		case customer.Region != s.Region:
			t.Fatalf("sale %d is in region %s, its customer in %s", s.ID, s.Region, customer.Region)
		case products[s.Product] == 0:
			t.Fatalf("sale %d names product %q, which does not exist", s.ID, s.Product)
		case s.ID != i+1 || s.Date < previous || s.Date < FirstDay || s.Date > LastDay:
			t.Fatalf("sale at index %d has id %d and date %s after %s", i, s.ID, s.Date, previous)
		case s.Quantity < 1 || s.Amount <= 0 || s.Amount > products[s.Product]*float64(s.Quantity):
			t.Fatalf("sale %d: quantity %d, amount %v", s.ID, s.Quantity, s.Amount)
		case math.Mod(s.Amount, 0.25) != 0:
			t.Fatalf("sale %d: amount %v is no multiple of 0.25, so sums would depend on their order", s.ID, s.Amount)
		}
		previous = s.Date
		perYear[s.Date[:4]] += s.Amount
		perRegion[s.Region] += s.Amount
	}
	for _, year := range []string{"2024", "2025"} {
		if perYear[year] <= 0 {
			t.Errorf("no sales in %s", year)
		}
	}
	for _, region := range Regions() {
		if perRegion[region] <= 0 {
			t.Errorf("no sales in region %s", region)
		}
	}
}

func TestPeople(t *testing.T) {
	t.Parallel()
	d := Load()
	emails, phones, owners := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, m := range d.Team {
		owners[m.Name] = m.Region
		checkAddress(t, m.Email)
	}
	if len(owners) != len(d.Team) {
		t.Error("two members of the team share a name")
	}
	segments := map[string]int{}
	for i, c := range d.Customers {
		if c.ID != firstCustomerID+i {
			t.Fatalf("customer at index %d has id %d", i, c.ID)
		}
		if emails[c.Email] || phones[c.Phone] {
			t.Errorf("customer %d shares %s or %s with another", c.ID, c.Email, c.Phone)
		}
		emails[c.Email], phones[c.Phone] = true, true
		checkAddress(t, c.Email)
		if !strings.Contains(c.Phone, "-555-01") {
			t.Errorf("customer %d: %s is not in the block reserved for fiction", c.ID, c.Phone)
		}
		if owners[c.Owner] != c.Region {
			t.Errorf("customer %d in %s belongs to %s of %s", c.ID, c.Region, c.Owner, owners[c.Owner])
		}
		if _, err := time.Parse(time.DateOnly, c.Since); err != nil || c.Since >= FirstDay {
			t.Errorf("customer %d: since %q", c.ID, c.Since)
		}
		segments[c.Segment]++
	}
	for i, s := range Segments() {
		if segments[s] == 0 {
			t.Errorf("no customer in segment %q", s)
		}
		if i > 0 && segments[s] > segments[Segments()[i-1]] {
			t.Errorf("segment %q is larger than the one before it", s)
		}
	}
	if _, ok := d.Customer(firstCustomerID - 1); ok {
		t.Error("found a customer below the first id")
	}
	if _, ok := d.Customer(firstCustomerID + Customers); ok {
		t.Error("found a customer above the last id")
	}
}

func checkAddress(t *testing.T, address string) {
	t.Helper()
	parsed, err := mail.ParseAddress(address)
	if err != nil || parsed.Address != address || !strings.HasSuffix(address, ".example.com") {
		t.Errorf("address %q: %v", address, err)
	}
}
