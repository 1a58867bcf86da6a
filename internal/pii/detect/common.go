package detect

import (
	"strings"
	"sync"
)

// common returns words that occur in most texts and programs but may also be values. A value that consists only of such words is not looked for.
var common = sync.OnceValue(func() map[string]bool {
	words := map[string]bool{}
	for _, word := range strings.Fields(commonWords) {
		words[word] = true
	}
	return words
})

const commonWords = `
a about above after again all also always an and angel any anyone april are around art as ash at august avenue back be bear because been
before bell berry best better big bill bishop black blue bob bond both bright brook brown but buck by call can card care carol carry case
chance charity chase chip christian city clay cliff close cole come cook could crystal customer daily dale dawn day days dean dear default
del den did dick do does don done down drew each early earl east else ever every faith fall false fast father few field find first fish
flat for forest fox frank free from front full gene general get give glen go good grace grant gray great green grey guest guy had hall
harmony has have he heath her here high hill him his holly home honey hope house how hunter i if in into iris is it its ivy jack jay job
join joy judge june just justice keen king know known lake land lane last law left less let life like lily line list little long look lot
love low made main major make man many march mark marks marsh mason master max may me mercy mike mile miles mill mint miss mister more
most mother mr mrs ms much must my name near need never new next nice nick nil no none noon norm north not note nothing now number of off
office old olive on once one only open or order other our out over own page park pat paris part pat peace pearl penny people person piece
place plain point pope port post power price pride prince private prof public put queen rain rather ray real red rex rich right rise river
road rob robin rock rod rose round royal ruby run rusty ruth said same sandy say sea see self set shall she short show side since sir sky
slim small smith so some son south spring square star state stay steel still stone street strong such sue summer sun sure table take temple
test than thanks that the their them then there these they thing think this thorn those three through time title to today together too
town trace true two unknown under until up us use user van very victor victory view village violet was water way we welcome well went west
what when where which while white who why wild will win winter wise with within without wolf wood woods word work world would yes yet you
young your zero n/a anonymous admin address company contact client email phone street test tester undefined null nan object string number
boolean symbol function return const var class async await export import default require module static super switch throw try catch typeof
void yield delete else extends finally instanceof continue break debugger enum interface implements package protected math map date array
json error promise proxy reflect regexp min abs length index key keys value values entries item items data result results input output
console log info warn debug filter find reduce sort slice split join push pop shift concat includes trim replace match text path paths file
files read write append rename copy remove search query server tool tools resource uri sleep zone offset encoding base64 positional raw
type id url http https get post patch options body status code message cause stack january february march april may june july august
september october november december monday tuesday wednesday thursday friday saturday sunday
`
