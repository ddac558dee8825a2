-- Counts the processes that share a limit.
--
-- KEYS[1]: the key. ARGV: this process's name, how long it counts in µs; 0: it ends.
-- Reply: how many there are, 1 if this one is new among them, how many of them come before it
-- in the order of names.
--
-- The key is a sorted set. Each process has two members: its name, whose score is 0, so that
-- these are in the order of names; and "until:" with its name, whose score is when it ends.
local call, key, name, lasts = redis.call, KEYS[1], ARGV[1], tonumber(ARGV[2])
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
for _, ended in ipairs(call('ZRANGEBYSCORE', key, '(0', string.format('%.0f', now))) do
	call('ZREM', key, ended, string.sub(ended, 7))
end
local new = 0
if lasts == 0 then
	call('ZREM', key, name, 'until:' .. name)
else
	new = call('ZADD', key, 0, name)
	call('ZADD', key, string.format('%.0f', now + lasts), 'until:' .. name)
	call('PEXPIRE', key, math.ceil(lasts / 1000) + 1)
end
local processes = call('ZCOUNT', key, 0, 0)
return {processes, new, call('ZRANK', key, name) or 0}
