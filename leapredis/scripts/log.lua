-- One decision of the sliding-window log.
--
-- KEYS[1]: the key. ARGV[1]: limit, length of the window in µs, n, most, of 7 bytes each.
--   most >= n: take n if they fit
--   most == 0: take nothing
--   most == -1: take n whatever the limit
--   most == -2: take as many of n as fit
-- Reply: taken (with most == 0: n if they would fit), how much is held then, after how many
--   µs n would fit (0: now; -1: never), after how many nothing is held, when they were taken,
--   after how many the first of what is held leaves (0: nothing was taken).
--
-- A member's score is the time of an admission in µs; no two have the same. A member is
-- 14 bytes: all that was taken up to it and with it, modulo 2^52 (7), and with it (7). So
-- the sum over any stretch is one subtraction.
local call, key, unpack = redis.call, KEYS[1], struct.unpack
local limit, length, n, most = unpack('>I7I7I7i7', ARGV[1])
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local wrap = 0x10000000000000

-- at: no time is before that of the newest admission, also if the server's clock went back.
local at, through, held, oldest, first = now, 0, 0, nil, 0
local newest = call('ZRANGE', key, -1, -1, 'WITHSCORES')
if newest[1] then
	if #newest[1] ~= 14 then
		return redis.error_reply('WRONGTYPE the key holds no log')
	end
	at = math.max(now, tonumber(newest[2]))
	through = unpack('>I7', newest[1])
	oldest = call('ZRANGEBYSCORE', key, string.format('(%.0f', at - length), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
	if oldest[1] then
		local sum, with = unpack('>I7I7', oldest[1])
		first = with
		held = (through - sum) % wrap + with
	end
end

if most == -2 then
	n = math.max(1, math.min(n, limit - held))
end
local taken, wait = 0, 0
if n > limit and most ~= -1 then
	wait = -1
elseif held + n <= limit then
	taken = n
elseif most == -1 then
	taken = math.min(n, 0x4000000000000 - held)
else
	-- Those that must leave first are found by halving: at most so many leave up to low.
	local short, leaves = held + n - limit, tonumber(oldest[2])
	if first < short then
		local low = call('ZRANK', key, oldest[1])
		local high = call('ZCARD', key) - 1
		local base = unpack('>I7', oldest[1]) - first
		while high - low > 1 do
			local middle = math.floor((low + high) / 2)
			local sum = unpack('>I7', call('ZRANGE', key, middle, middle)[1])
			if (sum - base) % wrap < short then
				low = middle
			else
				high = middle
			end
		end
		leaves = tonumber(call('ZRANGE', key, high, high, 'WITHSCORES')[2])
	end
	wait = leaves + length - now
end

if most ~= 0 and taken > 0 then
	if newest[1] and at <= tonumber(newest[2]) then
		at = at + 1
	end
	held = held + taken
	if not newest[1] then
		call('PEXPIRE', key, 1) -- no key yet: whoever may not have it expire is denied before it is there
	end
	call('ZADD', key, string.format('%.0f', at), struct.pack('>I7I7', (through + taken) % wrap, taken))
	if newest[1] then
		-- Not what has left the window only at a time that is ahead: when the newest are given
		-- back, it is in it again.
		call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now - length))
	end
	call('PEXPIRE', key, math.floor((at - now + length) / 1000) + 2)
	local leaves = at
	if oldest and oldest[1] then
		leaves = tonumber(oldest[2])
	end
	return {taken, held, 0, at - now + length, at, leaves - now + length}
end
local reset = 0
if held > 0 then
	reset = tonumber(newest[2]) - now + length
end
return {taken, held, wait, reset, 0}
