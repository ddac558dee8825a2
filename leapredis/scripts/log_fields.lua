-- One decision of the sliding-window log, in a hash whose fields expire.
--
-- KEYS, ARGV, reply: as in log_sorted.lua.
--
-- Fields 1, 2, 3, … are admissions in the order of their times: when in µs (7), all that
-- was taken up to it and with it, modulo 2^52 (7), and with it (7). Each expires a little
-- after it has left the window. Field m is: no field before this one matters (7), the
-- number of the newest (7), its time (7), its sum (7). So which fields there are is looked
-- up by their numbers, by time: it does not matter when the server clears them away, nor
-- what it says that there are.
local call, key, unpack = redis.call, KEYS[1], struct.unpack
local limit, length, n, most = unpack('>I7I7I7i7', ARGV[1])
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local wrap = 0x10000000000000

local function admission(number)
	local value = call('HGET', key, string.format('%.0f', number))
	if value then
		return unpack('>I7I7I7', value)
	end
end

local at, through, held = now, 0, 0
local begin, newest, latest = 1, 0, 0
local kept = 1 -- begin, as it is kept
local oldest, first = 0, 0 -- the time of the oldest in the window, and how many it is: none, if it was given back
local meta = call('HGET', key, 'm')
if not meta then
	if call('EXISTS', key) == 1 then
		return redis.error_reply('WRONGTYPE the key holds no log')
	end
else
	if #meta ~= 28 then
		return redis.error_reply('WRONGTYPE the key holds no log')
	end
	begin, newest, latest, through = unpack('>I7I7I7I7', meta)
	at, kept = math.max(now, latest), begin
	if latest <= at - length then
		begin = newest + 1
	else
		-- The first that is in the window is mostly near where it was before: steps
		-- from there double, and then it is found by halving.
		local function gone(number)
			local taken_at = admission(number)
			return not taken_at or taken_at <= at - length
		end
		local low, high, step = begin - 1, begin, 1
		while high < newest and gone(high) do
			low, high, step = high, math.min(high + step, newest), step * 2
		end
		while high - low > 1 do
			local middle = math.floor((low + high) / 2)
			if gone(middle) then
				low = middle
			else
				high = middle
			end
		end
		local sum
		begin = high
		oldest, sum, first = admission(high)
		if oldest then
			held = (through - sum) % wrap + first
		else
			begin = newest + 1
		end
	end
end

-- Not what has left the window only at a time that is ahead: when the newest are given back,
-- it is in it again.
if at == now then
	kept = begin
end

-- The time of the admission with which so many of what is held leave the window.
local function leaving(count)
	if first >= count then
		return oldest
	end
	local low, high, base = begin, newest, through - held
	while high - low > 1 do
		local middle = math.floor((low + high) / 2)
		local _, sum = admission(middle)
		if (sum - base) % wrap < count then
			low = middle
		else
			high = middle
		end
	end
	return (admission(high))
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
	wait = leaving(held + n - limit) + length - now
end

if most ~= 0 and taken > 0 then
	if newest > 0 and at <= latest then
		at = latest + 1
	end
	local leaves = at
	if held > 0 then
		leaves = leaving(1)
	end
	held = held + taken
	if not meta then
		-- No key yet: whoever may not have it expire is denied before it is there.
		call('PEXPIRE', key, 1)
		call('HPEXPIREAT', key, 1, 'FIELDS', 1, 'm')
	end
	local number, sum = string.format('%.0f', newest + 1), (through + taken) % wrap
	call('HSET', key, 'm', struct.pack('>I7I7I7I7', kept, newest + 1, at, sum),
		number, struct.pack('>I7I7I7', at, sum, taken))
	call('PEXPIRE', key, math.floor((at - now + length) / 1000) + 2)
	call('HPEXPIREAT', key, string.format('%.0f', math.floor((at + length) / 1000) + 2), 'FIELDS', 1, number)
	return {taken, held, 0, at - now + length, at, leaves - now + length}
end
local reset = 0
if held > 0 then
	reset = latest - now + length
end
return {taken, held, wait, reset, 0}
