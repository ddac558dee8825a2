-- Forgets what a key of counter.lua holds. The generation lets no refund of what was taken
-- before touch what is taken afterwards.
--
-- KEYS[1]: the key. Reply: 1 if there was one.
local value = redis.call('GET', KEYS[1])
if not value then
	return {0}
end
if #value ~= 24 then
	return redis.error_reply('WRONGTYPE the key holds no counter')
end
local number, generation = struct.unpack('>I6I4', value)
redis.call('SETRANGE', KEYS[1], 0, struct.pack('>I6I4I7I7', number, (generation + 1) % 0x40000, 0, 0))
return {1}
