-- Gives back what was taken from a key of log.lua.
--
-- KEYS[1]: the key. ARGV: when it was taken, n. Reply: how much was given back.
--
-- All later members count what was taken up to them, so they are written anew. If those
-- are more than 1000, nothing is given back.
local wrap = 0x10000000000000
local n = tonumber(ARGV[2])
local found = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, 1002)
if not found[1] or found[2] ~= ARGV[1] and tonumber(found[2]) ~= tonumber(ARGV[1]) or #found > 2002 then
	return {0}
end
if #found[1] ~= 14 then
	return redis.error_reply('WRONGTYPE the key holds no log')
end
local _, taken = struct.unpack('>I7I7', found[1])
if taken < n then
	return {0}
end
local gone, new = {}, {}
for i = 1, #found, 2 do
	local through, with = struct.unpack('>I7I7', found[i])
	if i == 1 then
		with = with - n
	end
	gone[#gone + 1] = found[i]
	if with > 0 then
		new[#new + 1] = found[i + 1]
		new[#new + 1] = struct.pack('>I7I7', (through - n) % wrap, with)
	end
end
-- The key stays while it has members, and its expiry with it: unless it is to be empty,
-- there is one at every moment.
local keep = redis.call('PTTL', KEYS[1])
redis.call('ZREM', KEYS[1], unpack(gone))
if new[1] then
	redis.call('ZADD', KEYS[1], unpack(new))
	redis.call('PEXPIRE', KEYS[1], math.max(keep, 1))
end
return {n}
