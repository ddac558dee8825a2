package bench

var peers = []Case{}
