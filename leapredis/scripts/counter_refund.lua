-- Gives back what was taken from a key of counter.lua, if its window is still the one that
-- was charged.
--
-- KEYS[1]: the key. ARGV: the window's number, the generation, n. Reply: how much was given back.
local value = redis.call('GET', KEYS[1])
if not value then
	return {0}
end
if #value ~= 24 then
	return redis.error_reply('WRONGTYPE the key holds no counter')
end
local number, generation, _, current = struct.unpack('>I6I4I7I7', value)
local n = tonumber(ARGV[3])
if number ~= tonumber(ARGV[1]) or generation ~= tonumber(ARGV[2]) or current < n then
	return {0}
end
redis.call('SETRANGE', KEYS[1], 17, struct.pack('>I7', current - n))
return {n}
