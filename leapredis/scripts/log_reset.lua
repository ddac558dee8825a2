-- Forgets what a key of a log holds. What was taken before is known by its
-- time, which does not come again, so no refund of it touches what is taken afterwards.
--
-- KEYS[1]: the key. Reply: 1 if there was one.
local found = redis.call('TYPE', KEYS[1])
found = type(found) == 'table' and found.ok or found
if found ~= 'none' and found ~= 'zset' then
	return redis.error_reply('WRONGTYPE the key holds no log')
end
return {redis.call('UNLINK', KEYS[1])}
