-- One decision of the generic cell rate algorithm, or a correction of one.
--
-- KEYS[1]: the key. ARGV[1], in numbers of 7 bytes each: limit; how long burst takes to be paid,
-- and n: each a whole number of µs, and the rest in parts of limit of one µs; n; most:
--   most >= n: take n if they fit
--   most == 0: take nothing
--   most == -1: take n whatever the limit
--   most == -2: take as many of n as fit; how long one takes to be paid follows
--   most == -3: give back n, which were taken at a time that follows
--   most == -4: forget what is owed
-- Reply: taken (with most == 0: n if they would fit), or given back; how much is owed then, as
--   two numbers; the time in µs; how far that is after the server's.
--
-- The value is a time (7), how much was owed then, as two numbers of 7 bytes, and the limit (7)
-- that the second is in parts of. After a reset there is also: when it was (7), and when what
-- had been taken before would have been paid (7).
--
-- Numbers are doubles, exact up to 2^53: the time is below 2^52 until 2112, a time to pay is at
-- most 2^51, a rest is below limit, at most 2^49. So all is added and compared exactly.
local call, key, unpack = redis.call, KEYS[1], struct.unpack
local limit, whole, part, cost, cost_part, n, most = unpack('>I7I7I7I7I7I7i7', ARGV[1])
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- forgot: when the last reset was; stale: when what had been taken before it would be paid.
local at, owes, rest, under, forgot, stale = now, 0, 0, limit, 0, 0
local value = call('GET', key)
if value then
	local seen = 0x20000000000000
	if #value == 28 then
		seen, owes, rest, under = unpack('>I7I7I7I7', value)
	elseif #value == 42 then
		seen, owes, rest, under, forgot, stale = unpack('>I7I7I7I7I7I7', value)
	end
	if seen > 0x10000000000000 or owes > 0x8000000000000 or rest > 0 and rest >= under then
		return redis.error_reply('WRONGTYPE the key holds no burst')
	end
	if seen > now then
		at = seen -- the server's clock went back: the key stays where it is
	end
	owes = owes - (at - seen)
	if owes < 0 then
		owes, rest = 0, 0
	end
end

-- a × b ÷ c and what is left, for a < c; b is at most 2^50.
local divided
if most == -2 or rest > 0 and under ~= limit then
	function divided(a, b, c)
		local product = a * b
		if product < 0x20000000000000 then
			local left = product % c
			return (product - left) / c, left
		end
		local quotient, left, power = 0, 0, 0x4000000000000
		while power >= 1 do
			quotient, left = quotient * 2, left * 2
			if left >= c then
				quotient, left = quotient + 1, left - c
			end
			if b >= power then
				b, left = b - power, left + a
				if left >= c then
					quotient, left = quotient + 1, left - c
				end
			end
			power = power / 2
		end
		return quotient, left
	end
end
if rest > 0 and under ~= limit then
	-- Another limit, so other parts: rounded up to the next.
	local left
	rest, left = divided(rest, limit, under)
	if left > 0 then
		rest = rest + 1
	end
	if rest == limit then
		owes, rest = owes + 1, 0
	end
end

local taken = 0
if most >= -2 then
	-- The price is compared with the room that there is.
	local room, room_part = whole - owes, part - rest
	if room_part < 0 then
		room, room_part = room - 1, room_part + limit
	end
	if most == -1 or cost < room or cost == room and cost_part <= room_part then
		taken = n
	elseif most == -2 then
		-- The quotient of doubles may be one off.
		local one, one_part = unpack('>I7I7', ARGV[1], 50)
		taken = math.min(n, math.floor((room + room_part / limit) / (one + one_part / limit)) + 2)
		repeat
			taken = math.max(0, taken - 1)
			local more
			more, cost_part = divided(one_part, taken, limit)
			cost = one * taken + more
		until taken == 0 or cost < room or cost == room and cost_part <= room_part
	end
	if most == 0 or taken == 0 then
		return {taken, owes, rest, at, at - now}
	end
	owes, rest = owes + cost, rest + cost_part
	if rest >= limit then
		owes, rest = owes + 1, rest - limit
	end
	if owes >= 0x8000000000000 then
		owes, rest = 0x8000000000000, 0
	end
elseif owes == 0 and rest == 0 then
	return {0, 0, 0, at, at - now}
elseif most == -3 then
	-- What was given is the price less the time since, in which it was paid.
	local began = unpack('>I7', ARGV[1], 50)
	local back = cost - (at - began)
	if began <= forgot or back < 0 then
		return {0, owes, rest, at, at - now}
	end
	taken, owes, rest = n, owes - back, rest - cost_part
	if rest < 0 then
		owes, rest = owes - 1, rest + limit
	end
	if owes < 0 then
		owes, rest = 0, 0
	end
else
	forgot, stale = at, math.max(stale, at + owes + 1)
	owes, rest = 0, 0
end

local text, ends = struct.pack('>I7I7I7I7', at, owes, rest, limit), at + owes
if stale > at then
	text, ends = text .. struct.pack('>I7I7', forgot, stale), math.max(ends, stale)
end
call('SET', key, text, 'PX', math.floor((ends - now) / 1000) + 2)
return {taken, owes, rest, at, at - now}
