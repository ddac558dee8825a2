-- Takes a place of a key, if one is free.
--
-- KEYS[1]: the key. ARGV[1]: limit, how long the lease lasts in µs, of 7 bytes each. ARGV[2]:
-- the place's name, of 16 bytes; empty, and none is taken.
-- Reply: 1 if it was taken, how many are taken then.
--
-- The key is a sorted set. A member is a place, its score when its lease ends in µs.
local call, key, id = redis.call, KEYS[1], ARGV[2]
local limit, lasts = struct.unpack('>I7I7', ARGV[1])
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local past = string.format('%.0f', now)

local last, taken = call('ZRANGE', key, -1, -1)[1], 0
if last then
	if #last ~= 16 then
		return redis.error_reply('WRONGTYPE the key holds no places')
	end
	taken = call('ZCOUNT', key, '(' .. past, '+inf')
end
if id == '' or taken >= limit then
	return {0, taken}
end
-- The key lasts as long as any of its places. Whoever may not have it expire is denied before
-- it is there.
local expiry = math.floor(lasts / 1000) + 2
if last then
	call('PEXPIRE', key, expiry, 'GT')
else
	call('PEXPIRE', key, 1)
end
call('ZADD', key, string.format('%.0f', now + lasts), id)
if last then
	call('ZREMRANGEBYSCORE', key, '-inf', past)
else
	call('PEXPIRE', key, expiry)
end
return {1, taken + 1}
