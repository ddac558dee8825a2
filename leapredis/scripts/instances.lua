-- Counts the processes that share a limit.
--
-- KEYS[1]: the key. ARGV: this process's name, how long it counts in µs; 0: it ends.
-- Reply: how many there are, 1 if this one is new among them.
local time = redis.call('TIME')
local now, lasts = time[1] * 1000000 + time[2], tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
local new = 0
if lasts == 0 then
	redis.call('ZREM', KEYS[1], ARGV[1])
else
	new = redis.call('ZADD', KEYS[1], string.format('%.0f', now + lasts), ARGV[1])
	redis.call('PEXPIRE', KEYS[1], math.ceil(lasts / 1000) + 1)
end
return {redis.call('ZCARD', KEYS[1]), new}
