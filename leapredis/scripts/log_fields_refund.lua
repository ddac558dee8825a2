-- Gives back what was taken from a key of log_fields.lua.
--
-- KEYS[1]: the key. ARGV: when it was taken, n, length of the window in µs. Reply: how much
-- was given back.
--
-- All later admissions count what was taken up to them, so they are written anew, and so
-- are their expiries, which the writing forgets. If those are more than 1000, nothing is
-- given back.
local wrap = 0x10000000000000
local taken_at, n, length = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local meta = redis.call('HGET', KEYS[1], 'm')
if not meta then
	return {0}
end
if #meta ~= 28 then
	return redis.error_reply('WRONGTYPE the key holds no log')
end
local begin, newest, latest, through = struct.unpack('>I7I7I7I7', meta)

local function admission(number)
	local value = redis.call('HGET', KEYS[1], string.format('%.0f', number))
	if value then
		return struct.unpack('>I7I7I7', value)
	end
end

-- The last whose time is not after taken_at.
local low, high = begin - 1, newest + 1
while high - low > 1 do
	local middle = math.floor((low + high) / 2)
	local at = admission(middle)
	if not at or at <= taken_at then
		low = middle
	else
		high = middle
	end
end
local at, _, taken = admission(low)
if low < begin or at ~= taken_at or taken < n or newest - low > 1000 then
	return {0}
end
for number = low, newest do
	local at, sum, with = admission(number)
	if number == low then
		with = with - n
	end
	local name = string.format('%.0f', number)
	redis.call('HSET', KEYS[1], name, struct.pack('>I7I7I7', at, (sum - n) % wrap, with))
	redis.call('HPEXPIREAT', KEYS[1], string.format('%.0f', math.floor((at + length) / 1000) + 2), 'FIELDS', 1, name)
end
through = (through - n) % wrap
-- Those at the end that are nothing any more go, so that it is true when nothing is held.
while newest >= begin do
	local at, _, with = admission(newest)
	if at and with > 0 then
		break
	end
	redis.call('HDEL', KEYS[1], string.format('%.0f', newest))
	newest = newest - 1
end
if newest < begin then
	redis.call('DEL', KEYS[1])
else
	latest = admission(newest)
	redis.call('HSET', KEYS[1], 'm', struct.pack('>I7I7I7I7', begin, newest, latest, through))
end
return {n}
