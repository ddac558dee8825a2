-- Asks of what type the value of a key is. KEYS[1]: the key. Reply: 1 for none, and so on as
-- below; 0 for another.
local found = redis.call('TYPE', KEYS[1])
local types = {none = 1, string = 2, list = 3, set = 4, zset = 5, hash = 6, stream = 7}
return {types[type(found) == 'table' and found.ok or found] or 0}
