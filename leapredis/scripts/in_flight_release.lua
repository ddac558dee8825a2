-- Gives a place of a key back, and no other, also if its lease has ended.
--
-- KEYS[1]: the key. ARGV[1]: the place's name. Reply: 1 if it was there.
return {redis.call('ZREM', KEYS[1], ARGV[1])}
