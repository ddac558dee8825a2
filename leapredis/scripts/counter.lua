-- One decision of the sliding-window counter.
--
-- KEYS[1]: the key. ARGV[1]: limit, length of a window in µs, n, most, of 7 bytes each. (As
-- four texts, they would cost a sixth of all that a decision costs the server.)
--   most >= n: take n if they fit, and up to most if there is much room beside
--   most == 0: take nothing
--   most == -1: take n whatever the limit
--   most == -2: take as many of n as fit
-- Reply: taken (with most == 0: n if they would fit), previous, current, the time in µs,
--   and if one is not 0: generation, how far that time is after the server's.
--
-- The value is 24 bytes: the window's number (6), the generation (4: counts resets), and
-- what was taken in the window before that one (7) and in it (7).
--
-- Numbers are doubles, exact up to 2^53: the time is less for 200 years, a window is
-- below 2^45, counts are at most 2^50, a limit is at most 2^49.
local call, key, unpack = redis.call, KEYS[1], struct.unpack
local limit, length, n, most = unpack('>I7I7I7i7', ARGV[1])
local time = call('TIME')
local at = time[1] * 1000000 + time[2]
local elapsed = at % length
local number = (at - elapsed) / length
local generation, previous, current, same, ahead = 0, 0, 0, false, 0

local value = call('GET', key)
if value then
	if #value ~= 24 then
		return redis.error_reply('WRONGTYPE the key holds no counter')
	end
	local seen, g, p, c = unpack('>I6I4I7I7', value)
	generation = g
	if seen == number then
		same, previous, current = true, p, c
	elseif seen == number - 1 then
		previous = c
	elseif seen > number then
		-- The server's clock went back: the key stays where it is.
		same, previous, current = true, p, c
		number, elapsed, ahead = seen, 0, seen * length - at
		at = at + ahead
	end
end

-- Do n fit? previous × rest / length <= room. The products may be inexact, but rounding
-- keeps their order. If they round to the same, they differ by less than 2^46, and their
-- low 48 bits tell which is larger.
local rest = length - elapsed
if most == -2 then
	-- As many as fit, or one more: what is computed here is off by less than a half.
	n = math.max(1, math.min(n, math.floor(limit - current - previous * rest / length + 0.5)))
end
local room = limit - current - n
local share, space = previous * rest, room * length
local fits = room >= 0 and share <= space
if fits and share == space and share >= 0x20000000000000 then
	local function low(a, b)
		local al, bl = a % 0x1000000, b % 0x1000000
		local mid = ((a - al) / 0x1000000 * bl + (b - bl) / 0x1000000 * al) % 0x1000000
		return (al * bl + mid * 0x1000000) % 0x1000000000000
	end
	fits = (low(room, length) - low(previous, rest)) % 0x1000000000000 < 0x800000000000
end
if most == -2 and not fits and n > 1 then
	n, fits = n - 1, true
end

local taken = 0
if most == 0 then
	if fits then
		taken = n
	end
elseif most == -1 then
	taken = math.min(n, 0x4000000000000 - current)
	current = current + taken
elseif fits then
	-- Beyond n, no more than an eighth of what is left for all. With limits above 2^30, that
	-- may be off by one.
	taken = n + math.max(0, math.min(most - n, math.floor((room - share / length) / 8)))
	current = current + taken
end
if most ~= 0 and taken > 0 then
	if same then
		call('SETRANGE', key, '17', struct.pack('>I7', current))
	else
		call('SET', key, struct.pack('>I6I4I7I7', number, generation, previous, current),
			'PX', math.floor((2 * length - elapsed) / 1000) + 2)
	end
end
if generation + ahead == 0 then
	return {taken, previous, current, at}
end
return {taken, previous, current, at, generation, ahead}
