-- Asks whether the server has fields that expire. KEYS[1]: any key. Reply: 1 or 0.
local info = redis.pcall('COMMAND', 'INFO', 'hpexpireat')
return {type(info) == 'table' and type(info[1]) == 'table' and string.lower(info[1][1]) == 'hpexpireat' and 1 or 0}
