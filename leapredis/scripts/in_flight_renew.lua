-- Has the lease of a place last longer, unless it has ended.
--
-- KEYS[1]: the key. ARGV: the place's name, how long the lease lasts from now in µs.
-- Reply: 1 if it does.
local call, key, lasts = redis.call, KEYS[1], tonumber(ARGV[2])
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local ends = call('ZSCORE', key, ARGV[1])
if not ends or tonumber(ends) <= now then
	return {0}
end
call('PEXPIRE', key, math.floor(lasts / 1000) + 2, 'GT')
call('ZADD', key, string.format('%.0f', math.max(tonumber(ends), now + lasts)), ARGV[1])
return {1}
