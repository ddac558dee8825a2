-- Forgets what a key of a log holds. What was taken before is known by its time, which does
-- not come again, so no refund of it touches what is taken afterwards.
--
-- KEYS[1]: the key. Reply: 1 if there was one.
return {redis.call('UNLINK', KEYS[1])}
