package redis

import goredis "github.com/redis/go-redis/v9"

// helpers is the beginning of every script. ARGV[1] is the session's part of the key names. Times are in milliseconds.
const helpers = `
local totals, counts, expiry, meta, entries, used, last = unpack(KEYS)
local session = ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- forget takes a session out of the user's totals.
local function forget(name)
	local text = redis.call('HGET', counts, name)
	if text then
		local c = cjson.decode(text)
		redis.call('HINCRBY', totals, 'tokens', -c.n)
		redis.call('HINCRBY', totals, 'bytes', -c.b)
		redis.call('HDEL', counts, name)
	end
	redis.call('ZREM', expiry, name)
end

-- prune takes the sessions that have expired out of the user's totals, some at a time.
local function prune()
	for _, name in ipairs(redis.call('ZRANGEBYSCORE', expiry, '-inf', now, 'LIMIT', 0, 1000)) do
		forget(name)
	end
end

-- extend lets a key live until a time at least.
local function extend(key, till)
	local left = redis.call('PTTL', key)
	if left >= -1 and now + left < till then
		redis.call('PEXPIREAT', key, till)
	end
end

-- whole says whether the server has evicted nothing of the session.
local function whole()
	local n = redis.call('HMGET', meta, 'entries', 'used')
	return redis.call('LLEN', entries) == tonumber(n[1] or 0) and redis.call('SCARD', used) == tonumber(n[2] or 0)
end

-- keep lets the session live for some time at least.
local function keep(ttl)
	local till = math.max(now + ttl, tonumber(redis.call('ZSCORE', expiry, session) or 0))
	redis.call('ZADD', expiry, till, session)
	for _, key in ipairs({meta, entries, used}) do
		redis.call('PEXPIREAT', key, till)
	end
	for _, key in ipairs({totals, counts, expiry, last}) do
		extend(key, till)
	end
end
`

var (
	// loadScript extends a session and reads its state. ARGV: session, time to live. It returns the ID ("" for an empty session), the number of entries
	// (-1 if a part is missing), the highest number of a token, and the user's tokens and bytes.
	loadScript = goredis.NewScript(helpers + `
prune()
local id = redis.call('HGET', meta, 'id')
if id then
	keep(tonumber(ARGV[2]))
end
local all = redis.call('HMGET', totals, 'tokens', 'bytes')
return {id or '', whole() and redis.call('LLEN', entries) or -1, tonumber(redis.call('GET', last) or 0), tonumber(all[1] or 0), tonumber(all[2] or 0)}
`)

	// addScript adds entries to a session. ARGV: session, its time to live, time to live of the key last, ID, 1 if the session was empty
	// when it was loaded, counts, highest number of a token, number of entries, entries, members of used. It returns the ID, or nil for
	// a conflict.
	addScript = goredis.NewScript(helpers + `
local id = redis.call('HGET', meta, 'id')
if id ~= ARGV[4] then
	if ARGV[5] ~= '1' then
		return nil
	end
	id = id or ARGV[4]
end
if not whole() then
	return nil
end
local n = tonumber(ARGV[8])
for i = 9 + n, #ARGV do
	if redis.call('SISMEMBER', used, ARGV[i]) == 1 then
		return nil
	end
end
prune()
for from = 9, 8 + n, 1000 do
	redis.call('RPUSH', entries, unpack(ARGV, from, math.min(from + 999, 8 + n)))
end
for from = 9 + n, #ARGV, 1000 do
	redis.call('SADD', used, unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
redis.call('HSET', meta, 'id', id)
redis.call('HINCRBY', meta, 'entries', n)
redis.call('HINCRBY', meta, 'used', #ARGV - 8 - n)
local more = cjson.decode(ARGV[6])
local text = redis.call('HGET', counts, session)
local c = text and cjson.decode(text) or {n = 0, b = 0, t = {}}
c.n, c.b = c.n + more.n, c.b + more.b
for name, add in pairs(more.t) do
	c.t[name] = (c.t[name] or 0) + add
end
redis.call('HSET', counts, session, cjson.encode(c))
redis.call('HINCRBY', totals, 'tokens', more.n)
redis.call('HINCRBY', totals, 'bytes', more.b)
redis.call('SET', last, math.max(tonumber(ARGV[7]), tonumber(redis.call('GET', last) or 0)), 'PX', ARGV[3])
keep(tonumber(ARGV[2]))
return id
`)

	// keepScript extends a session. ARGV: session, time to live.
	keepScript = goredis.NewScript(helpers + `
if redis.call('EXISTS', meta) == 1 then
	keep(tonumber(ARGV[2]))
end
return 1
`)

	// deleteScript deletes a session. ARGV: session.
	deleteScript = goredis.NewScript(helpers + `
prune()
forget(session)
return redis.call('DEL', meta, entries, used, last)
`)

	// statsScript returns the counts of sessions. ARGV: session, or "" for all sessions of the user.
	statsScript = goredis.NewScript(helpers + `
prune()
if session == '' then
	return redis.call('HVALS', counts)
end
local text = redis.call('HGET', counts, session)
return text and {text} or {}
`)
)
